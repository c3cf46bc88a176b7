"""Parts that serve the objects of other projects. Importing this package registers them."""

from reconciler.plugins.koordinator import Koordinator
from reconciler.plugins.kueue import Kueue
from reconciler.plugins.plugin import register
from reconciler.plugins.provisioning import Provisioning

for plugin in (Koordinator(), Provisioning(), Kueue()):
    register(plugin)
