#!/bin/sh
# Make the archive of the kubectl plugin for this platform: a relocatable Python, the locked packages, and a start script.
# usage: archive.sh PYTHON WHEEL ARCHIVE      PYTHON: bin/python3 of a relocatable build, as `uv python install` makes
set -eu
[ $# = 3 ] || { echo "usage: archive.sh PYTHON WHEEL ARCHIVE; these are $# arguments: $*" >&2; exit 2; }
python=$1 wheel=$2 archive=$3
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -RL "$(dirname "$python")/.." "$work/python"
"$python" -m pip install --quiet --target "$work/packages" --require-hashes -r "$here/../requirements.lock"
"$python" -m pip install --quiet --target "$work/packages" --no-deps --no-index "$wheel"
cp "$here/kubectl-dra_reconciler" "$here/../../LICENSE" "$work/"
tar -czf "$archive" -C "$work" kubectl-dra_reconciler LICENSE python packages
