#!/usr/bin/env bash
# Rewrites the golden .cu of tests/golden/emit from what is emitted now. Review the diff.
# usage: golden-update.sh     BUILD may be set; the tests are built
set -euo pipefail
cd "$(dirname "$0")/.."
FPL_GOLDEN=update "${BUILD:-build}/tests/unit/t_golden"
