#!/usr/bin/env bash
# Make what the nodes install, in ~/.tune-vfl/wheels: the package, built anew; tune-vfl.txt, which names that build by its
# version and hash, so that a node takes no other; and for cluster.yaml locked.txt, with the versions and hashes of all
# that the package needs, against which the nodes check what they fetch.
#
#   bash cluster/wheels.sh             # once, and after each change; needs uv: python -m pip install 'uv>=0.9.2,<1'
#   bash cluster/wheels.sh --no-lock   # the same for cluster/local.yaml, whose nodes have a Python and a system of their own
set -euo pipefail
cd "$(dirname "$0")/.."
out=~/.tune-vfl/wheels
rm -rf build "$out"
python -m pip wheel -q --no-deps -w "$out" .
wheel=$(cd "$out" && echo tune_vfl-*.whl)
version=${wheel#tune_vfl-}
hash=$(python -m pip hash "$out/$wheel" | tail -n 1)
echo "tune-vfl[postgres]==${version%%-*} $hash" >"$out/tune-vfl.txt"
test "${1:-}" = --no-lock && exit 0
# boto3 is what the head's Ray starts and stops workers with. The Python and the system are those of the nodes.
echo 'boto3>=1.34' | uv pip compile -q pyproject.toml - --extra postgres -c constraints.txt --generate-hashes \
  --python-version 3.12.12 --python-platform x86_64-manylinux_2_28 --no-annotate --custom-compile-command "bash cluster/wheels.sh" \
  -o "$out/locked.txt"
