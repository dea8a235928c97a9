# What the command-line tests share. Tests run from the repository root; databases and compiled
# kernels live in scratch directories.
bats_require_minimum_version 1.5.0

setup() {
  cd "$BATS_TEST_DIRNAME/../.." || return 1
  fuseplan=$(realpath "${BUILD:-build}")/fuseplan
  scratch=$BATS_TEST_TMPDIR
  export FUSEPLAN_DB=$scratch/plans.db FUSEPLAN_SYSTEM_DB="" FUSEPLAN_PROFILES=$PWD/profiles
  # Compiled kernels are shared by the tests of a file: the cache is meant for it.
  export FUSEPLAN_CACHE=$BATS_FILE_TMPDIR/cache
  export G1=(--kind gemm_chain --m 128 --n 512 --k 32 --l 256 --dtype f16 --act relu --device h200)
}

# Runs the program with stdout in $output and stderr in $stderr, and expects an exit code.
expect() { # CODE ARGUMENTS...
  local code=$1
  shift
  run --separate-stderr "$fuseplan" "$@"
  [ "$status" -eq "$code" ] || {
    echo "exit $status, not $code: fuseplan $*"
    echo "stdout: $output"
    echo "stderr: $stderr"
    return 1
  }
}

# stderr is one line that begins with "fuseplan: "; a usage error may add where to find help.
one_line_error() {
  [ "${#stderr_lines[@]}" -eq 1 ] ||
    [[ ${#stderr_lines[@]} -eq 2 && ${stderr_lines[1]} == "see 'fuseplan"* ]]
  [[ ${stderr_lines[0]} == 'fuseplan: '* ]]
  [ -z "$output" ]
}

# A database with a predicted plan of the workload G1, the smallest there is; made once a file.
small_database() {
  local made=$BATS_FILE_TMPDIR/small.db
  if [ ! -e "$made" ]; then
    "$fuseplan" tune profiles/workloads/paper.yaml --only G1 --device h200 --measure model \
      --top-k 2 --db "$made" --quiet
  fi
  cp "$made" "$FUSEPLAN_DB"
}

has_gpu() {
  [ -e /dev/nvidia0 ]
}
