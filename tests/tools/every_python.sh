#!/usr/bin/env bash
# `make test` with each Python that pyproject.toml allows and this machine has, and then with the oldest NumPy that it
# allows and that has a build for this Python; says what is not there. Each Python gets an environment of its own,
# .venv-VERSION, and the oldest NumPy a folder in it. Exit code 1 if a suite fails.
set -u
cd "$(dirname "$0")/../.."
failed=0

# suite NAME [VARIABLE=VALUE...]: play the suite with the variables, and say how it went
suite() {
  local name=$1
  shift
  if env "$@" ${MAKE:-make} test PYTHON="$python" VENV="$venv"; then
    echo "$name: passed"
  else
    echo "$name: failed"
    failed=1
  fi
}

# oldest_numpy FOLDER: install it there, and print its version; or else what pip says last, which may be about the index
oldest_numpy() {
  local first error
  first=$(sed -n 's/.*"numpy>=2\.\([0-9]*\),.*/\1/p' pyproject.toml)
  for minor in $(seq "$first" $((first + 5))); do
    if error=$("$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --only-binary :all: --upgrade \
      --target "$1" "numpy==2.$minor.0" 2>&1); then
      echo "2.$minor.0"
      return
    fi
  done
  echo "$error" >&2
}

for version in 3.11 3.12 3.13 3.14; do
  python="" venv=.venv-$version
  for found in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"$version".*/bin/python "$(command -v "python$version")"; do
    "$found" -c 'import venv' 2>/dev/null && python=$found
  done
  if [ -z "$python" ]; then
    echo "Python $version: not installed"
    continue
  fi
  suite "Python $version"
  folder=$PWD/$venv/oldest-numpy
  if numpy=$(oldest_numpy "$folder") && [ -n "$numpy" ]; then
    suite "Python $version with NumPy $numpy" PYTHONPATH="$folder"
  else
    echo "Python $version: no build of an old NumPy"
  fi
done
exit $failed
