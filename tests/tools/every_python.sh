#!/usr/bin/env bash
# `make test` with each Python that pyproject.toml allows and this machine has; says which are not installed.
# Each gets an environment of its own, .venv-VERSION. Exit code 1 if a suite fails.
set -u
cd "$(dirname "$0")/../.."
failed=0
for version in 3.11 3.12 3.13 3.14; do
  python=""
  for found in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python "$(command -v "python$version")"; do
    "$found" -c 'import venv' 2>/dev/null && python=$found
  done
  if [ -z "$python" ]; then
    echo "Python $version: not installed"
  elif ${MAKE:-make} test PYTHON="$python" VENV=".venv-$version"; then
    echo "Python $version: passed"
  else
    echo "Python $version: failed"
    failed=1
  fi
done
exit $failed
