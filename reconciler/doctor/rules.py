"""Every rule that a finding can be a case of. Ids are stable: scripts and suppressions name them."""

from typing import Final

from reconciler.doctor.findings import Rule, Severity

_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO

UNREADABLE: Final = Rule(
    "unreadable", _E, "A document or an object cannot be read.",
    "Correct the field that is named; an API server refuses it too, or drops it.",
)  # fmt: skip
PUT_RIGHT: Final = Rule(
    "put-right", _W, "A field has a shape that is understood here, but not by an API server.",
    "Write it as the API has it; `dra-reconciler convert` does so for whole files.",
)  # fmt: skip
OLD_VERSION: Final = Rule(
    "old-version", _I, "An object is of an API version before v1.",
    "Publish resource.k8s.io/v1; `dra-reconciler convert` writes it.",
)  # fmt: skip
DUPLICATE_OBJECT: Final = Rule(
    "duplicate-object", _E, "Two objects of one kind have one name: the later replaces the earlier.",
    "Give each a name of its own.",
)  # fmt: skip
API_RULES: Final = Rule(
    "api-rules", _E, "A rule or limit of the API is broken.",
    "Change the field until the rule holds; an API server refuses the object as it is.",
)  # fmt: skip
UNKNOWN_FIELD: Final = Rule(
    "unknown-field", _W, "A field is not in the API, which drops it.",
    "Correct its name or its place, or remove it.",
)  # fmt: skip
UNRENDERED: Final = Rule(
    "unrendered-template", _E, "A value holds an action of a template that was not filled in.",
    "Render the template, and name what comes out of it.",
)  # fmt: skip
CLAIM_SOURCE: Final = Rule(
    "claim-source", _E, "A pod's resourceClaims entry has `source`, which servers drop.",
    "Move what is below `source` up to the entry.",
)  # fmt: skip
KOORDINATOR: Final = Rule(
    "koordinator-shape", _E, "A Device of Koordinator has no spec, or an annotation of its is no JSON.",
    "Write the spec; write the annotation as JSON, with names in double quotes.",
)  # fmt: skip

POOL_INCOMPLETE: Final = Rule(
    "pool-incomplete", _E, "The newest generation of a pool does not have the slices that it counts.",
    "Publish the missing slices, or correct resourceSliceCount; until then no device of the pool is given.",
)  # fmt: skip
POOL_OBSOLETE: Final = Rule(
    "pool-obsolete", _W, "A slice is of an older generation than its pool.",
    "Delete the slice, or bring it to the newest generation; its devices are not given.",
)  # fmt: skip
POOL_DISAGREES: Final = Rule(
    "pool-disagrees", _E, "Slices of one pool and generation disagree about resourceSliceCount.",
    "Write the same count into every slice of a generation.",
)  # fmt: skip
DUPLICATE_DEVICE: Final = Rule(
    "duplicate-device", _E, "A pool has two devices of one name.",
    "Rename one of them; until then no device of the pool is given.",
)  # fmt: skip
DEVICE_ON_TWO_NODES: Final = Rule(
    "device-on-two-nodes", _E, "One driver, pool and device name stands for devices of two nodes.",
    "Give each node a pool of its own, for example named after the node.",
)  # fmt: skip

DUPLICATE_COUNTER_SET: Final = Rule(
    "duplicate-counter-set", _E, "A pool has two counter sets of one name.",
    "Merge them or rename one; until then no device of the pool is given.",
)  # fmt: skip
DANGLING_COUNTER_SET: Final = Rule(
    "dangling-counter-set", _E, "A device draws from a counter set that its pool does not have.",
    "Correct the name, or publish the set in a slice of the same pool and generation.",
)  # fmt: skip
DANGLING_COUNTER: Final = Rule(
    "dangling-counter", _E, "A device draws a counter that the counter set does not have.",
    "Correct the name, or add the counter to the set.",
)  # fmt: skip
DEVICE_NEVER_FITS: Final = Rule(
    "device-never-fits", _E, "A device draws more than its counter set holds, so that it is never given.",
    "Lower what the device draws, or raise the counter.",
)  # fmt: skip
UNUSED_COUNTER: Final = Rule(
    "unused-counter", _W, "No device of the pool draws from a counter.",
    "Remove the counter, or have devices draw from it.",
)  # fmt: skip
COUNTERS_OVERCOMMITTED: Final = Rule(
    "counters-overcommitted", _E, "Devices that are held draw more than their counter set holds.",
    "Free one of the claims named; nothing more is given from the set until then.",
)  # fmt: skip

SELECTOR_REFUSED: Final = Rule(
    "selector-refused", _E, "An expression does not compile.",
    "Correct the expression; an API server refuses the object as it is.",
)  # fmt: skip
SELECTOR_RAISES: Final = Rule(
    "selector-raises", _E, "An expression fails on some devices, which fails the allocation as a whole.",
    "Guard it: put `device.driver == ... &&` or `\"name\" in device.attributes[...] &&` before it.",
)  # fmt: skip
MATCHES_NOTHING: Final = Rule(
    "matches-nothing", _W, "A class or a request selects none of the devices.",
    "Compare the expressions with the attributes that the slices publish.",
)  # fmt: skip
FOREIGN_DOMAIN: Final = Rule(
    "foreign-domain", _W, "An expression reads a domain that no device has.",
    "Names without a domain are in that of their driver; write the driver's name as the domain.",
)  # fmt: skip
MISSING_CLASS: Final = Rule(
    "missing-class", _W, "A request names a class that is not among the objects read.",
    "Create the DeviceClass, or correct deviceClassName; nothing, if the cluster has it already.",
)  # fmt: skip

NO_NODE_SELECTION: Final = Rule(
    "no-node-selection", _E, "A slice, or a device that has to, does not say which nodes can use it.",
    "Set exactly one of nodeName, nodeSelector, allNodes; on slices also perDeviceNodeSelection is one.",
)  # fmt: skip
BAD_NODE_SELECTOR: Final = Rule(
    "bad-node-selector", _E, "A node selector cannot be read.",
    "Correct the requirement; operators are written In, NotIn, Exists, DoesNotExist, Gt and Lt.",
)  # fmt: skip
MATCHES_NO_NODE: Final = Rule(
    "matches-no-node", _W, "A slice or device is for nodes of which none is among the objects read.",
    "Correct the node name or selector, or label the nodes.",
)  # fmt: skip

DOUBLE_ALLOCATION: Final = Rule(
    "double-allocation", _E, "Two claims hold a device that only one can hold.",
    "Delete one of the claims and the pods that use it.",
)  # fmt: skip
UNKNOWN_DEVICE: Final = Rule(
    "unknown-device", _W, "A claim holds a device that its pool does not publish.",
    "Publish the device again, or free the claim.",
)  # fmt: skip
HELD_AT_ODDS: Final = Rule(
    "held-at-odds", _E, "Devices are held side by side though they exclude one another.",
    "Free one of the claims named.",
)  # fmt: skip

ASYMMETRIC: Final = Rule(
    "asymmetric-exclusion", _W, "A device allows another that forbids it.",
    "State the same in both expressions; as it is, the pair is never given together.",
)  # fmt: skip
EXPRESSION_FAILS: Final = Rule(
    "expression-fails", _E, "A compatibleOnlyWith expression does not compile, or fails on a device.",
    "Guard what not all devices have; a failing pair counts as incompatible.",
)  # fmt: skip
EXCLUDES_ITSELF: Final = Rule(
    "excludes-itself", _I, "A compatibleOnlyWith expression is false for the device that states it.",
    "Nothing, if two such devices must not be held together; else let the expression hold for its own kind.",
)  # fmt: skip
LONELY_GROUP: Final = Rule(
    "lonely-group", _I, "No other device of the counter set declares a compatibility group.",
    "Nothing, if the device is meant to be held alone; else declare the group in the others.",
)  # fmt: skip
MISSPELLED_GROUP: Final = Rule(
    "misspelled-group", _W, "A compatibility group of one device is almost called like another's.",
    "Correct the name, so that the devices share the group.",
)  # fmt: skip
NEVER_TOGETHER: Final = Rule(
    "never-together", _I, "Devices exclude one another although the counters would allow both.",
    "Nothing, if the hardware cannot do both; else correct groups and expressions.",
)  # fmt: skip
DROPPED: Final = Rule(
    "dropped-expression", _W, "A compatibleOnlyWith field is not repeated in the annotation for servers.",
    "Publish it in the annotation dra-reconciler.io/device-extensions as well; servers drop the field.",
)  # fmt: skip
EXTENSION_CONFLICT: Final = Rule(
    "extension-conflict", _W, "Part of the annotation dra-reconciler.io/device-extensions has no effect.",
    "State each thing once, or the same in both places; the field wins over the annotation.",
)  # fmt: skip

RULES: Final = (
    UNREADABLE, PUT_RIGHT, OLD_VERSION, DUPLICATE_OBJECT, API_RULES, UNKNOWN_FIELD,
    UNRENDERED, CLAIM_SOURCE, KOORDINATOR,
    POOL_INCOMPLETE, POOL_OBSOLETE, POOL_DISAGREES, DUPLICATE_DEVICE, DEVICE_ON_TWO_NODES,
    DUPLICATE_COUNTER_SET, DANGLING_COUNTER_SET, DANGLING_COUNTER, DEVICE_NEVER_FITS, UNUSED_COUNTER,
    COUNTERS_OVERCOMMITTED,
    SELECTOR_REFUSED, SELECTOR_RAISES, MATCHES_NOTHING, FOREIGN_DOMAIN, MISSING_CLASS,
    NO_NODE_SELECTION, BAD_NODE_SELECTOR, MATCHES_NO_NODE,
    DOUBLE_ALLOCATION, UNKNOWN_DEVICE, HELD_AT_ODDS,
    ASYMMETRIC, EXPRESSION_FAILS, EXCLUDES_ITSELF, LONELY_GROUP, MISSPELLED_GROUP, NEVER_TOGETHER,
    EXTENSION_CONFLICT, DROPPED,
)  # fmt: skip
