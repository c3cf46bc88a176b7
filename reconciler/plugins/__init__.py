"""Parts that serve the objects of other projects. Importing this package registers them."""

from reconciler.plugins.koordinator.plugin import Koordinator
from reconciler.plugins.kueue.plugin import Kueue
from reconciler.plugins.plugin import register
from reconciler.plugins.provisioning.plugin import Provisioning

for plugin in (Koordinator(), Provisioning(), Kueue()):
    register(plugin)
