"""Times cel-python's own interpreter: devices as JSON on standard input, seconds a device on the output."""

import json
import sys
from time import perf_counter

import celpy
from celpy.adapter import json_to_cel


def main(expression: str) -> None:
    """Evaluate an expression on every device."""
    environment = celpy.Environment()
    program = environment.program(environment.compile(expression))
    devices = [{"device": json_to_cel(device)} for device in json.load(sys.stdin)]
    began = perf_counter()
    for device in devices:
        program.evaluate(device)
    print((perf_counter() - began) / len(devices))


if __name__ == "__main__":
    main(sys.argv[1])
