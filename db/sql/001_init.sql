-- Schema 1. Columns are documented in db/SCHEMA.md; JSONL exports use the same names.
-- 1179667534 is 'FPLN'.
PRAGMA application_id = 1179667534;
PRAGMA user_version = 1;

CREATE TABLE runs (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE CHECK (length(key) = 32),
  started_unix INTEGER NOT NULL CHECK (started_unix >= 0),
  ended_unix INTEGER CHECK (ended_unix >= 0),
  seed INTEGER NOT NULL,
  tool_version TEXT NOT NULL,
  arguments TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('running', 'done', 'failed', 'interrupted'))
) STRICT;

CREATE TABLE environments (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE CHECK (length(key) = 32)
) STRICT;

CREATE TABLE environment_fields (
  environment_id INTEGER NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
  name TEXT NOT NULL CHECK (name <> ''),
  value TEXT NOT NULL,
  PRIMARY KEY (environment_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE device_classes (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE CHECK (length(key) = 32),
  class TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  title TEXT NOT NULL,
  capability_major INTEGER NOT NULL,
  capability_minor INTEGER NOT NULL,
  sms INTEGER NOT NULL,
  l2_bytes INTEGER NOT NULL,
  hbm_bytes INTEGER NOT NULL,
  sm_clock_mhz REAL NOT NULL,
  smem_bytes_per_block INTEGER NOT NULL,
  smem_bytes_per_sm INTEGER NOT NULL,
  registers_per_sm INTEGER NOT NULL,
  threads_per_sm INTEGER NOT NULL,
  max_cluster INTEGER NOT NULL
) STRICT;

CREATE TABLE problems (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE CHECK (length(key) = 32),
  text TEXT NOT NULL UNIQUE,
  kind TEXT NOT NULL CHECK (kind IN ('gemm_chain', 'gated_ffn', 'conv_chain')),
  dtype TEXT NOT NULL CHECK (dtype IN ('f16', 'bf16')),
  act TEXT NOT NULL CHECK (act IN ('none', 'relu', 'gelu', 'silu')),
  m INTEGER NOT NULL CHECK (m >= 1),
  n INTEGER NOT NULL CHECK (n >= 1),
  k INTEGER NOT NULL CHECK (k >= 1),
  l INTEGER NOT NULL CHECK (l >= 1),
  batch INTEGER CHECK (batch >= 1),
  ic INTEGER CHECK (ic >= 1),
  h INTEGER CHECK (h >= 1),
  w INTEGER CHECK (w >= 1),
  k1 INTEGER CHECK (k1 % 2 = 1),
  CHECK ((kind = 'conv_chain') = (batch IS NOT NULL AND ic IS NOT NULL AND h IS NOT NULL
                                  AND w IS NOT NULL AND k1 IS NOT NULL))
) STRICT;

CREATE TABLE kernels (
  id INTEGER PRIMARY KEY,
  sha TEXT NOT NULL UNIQUE CHECK (length(sha) = 64),
  name TEXT NOT NULL,
  family TEXT NOT NULL,
  source_key TEXT NOT NULL,
  cluster INTEGER NOT NULL CHECK (cluster >= 1),
  block_threads INTEGER NOT NULL CHECK (block_threads >= 1),
  smem_bytes INTEGER NOT NULL CHECK (smem_bytes >= 0),
  rows_per_unit INTEGER NOT NULL CHECK (rows_per_unit >= 1),
  units_per_row INTEGER NOT NULL CHECK (units_per_row >= 1),
  max_clusters INTEGER NOT NULL CHECK (max_clusters >= 1),
  workspace_bytes_per_row_group INTEGER NOT NULL CHECK (workspace_bytes_per_row_group >= 0),
  registers INTEGER NOT NULL CHECK (registers >= 0),
  spill_bytes INTEGER NOT NULL CHECK (spill_bytes >= 0),
  map_a_rows INTEGER NOT NULL,
  map_a_cols INTEGER NOT NULL,
  map_a_box_rows INTEGER NOT NULL,
  map_a_box_cols INTEGER NOT NULL,
  map_a_slabs INTEGER NOT NULL,
  map_b_rows INTEGER NOT NULL,
  map_b_cols INTEGER NOT NULL,
  map_b_box_rows INTEGER NOT NULL,
  map_b_box_cols INTEGER NOT NULL,
  map_b_slabs INTEGER NOT NULL,
  map_d_rows INTEGER NOT NULL,
  map_d_cols INTEGER NOT NULL,
  map_d_box_rows INTEGER NOT NULL,
  map_d_box_cols INTEGER NOT NULL,
  map_d_slabs INTEGER NOT NULL,
  cubin BLOB
) STRICT;

CREATE TABLE candidates (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE CHECK (length(key) = 32),
  run_id INTEGER NOT NULL REFERENCES runs (id),
  problem_id INTEGER NOT NULL REFERENCES problems (id),
  device_class_id INTEGER NOT NULL REFERENCES device_classes (id),
  attempt INTEGER NOT NULL CHECK (attempt >= 1),
  is_library INTEGER NOT NULL CHECK (is_library IN (0, 1)),
  schedule TEXT NOT NULL,
  est_us REAL NOT NULL CHECK (est_us >= 0),
  est_plain_us REAL NOT NULL CHECK (est_plain_us >= 0),
  outcome TEXT NOT NULL CHECK (outcome IN (
    'pending', 'ok', 'constraint', 'compile_error', 'compile_timeout', 'resource_limit',
    'launch_error', 'sticky_error', 'run_timeout', 'wrong_result', 'nondeterministic',
    'invalid_time', 'throttled', 'contended', 'oom', 'worker_lost', 'skipped', 'built')),
  reason TEXT NOT NULL,
  was_exact_ok INTEGER NOT NULL CHECK (was_exact_ok IN (0, 1)),
  relative_error REAL,
  was_in_bounds INTEGER NOT NULL CHECK (was_in_bounds IN (0, 1)),
  kernel_id INTEGER REFERENCES kernels (id),
  -- one column per field of tuner/core/schedule_fields.def, in its order; NULL for the library
  loops TEXT,
  cls_m INTEGER CHECK (cls_m BETWEEN 1 AND 16),
  cls_n INTEGER CHECK (cls_n BETWEEN 1 AND 16),
  cls_k INTEGER CHECK (cls_k BETWEEN 1 AND 16),
  cls_l INTEGER CHECK (cls_l BETWEEN 1 AND 16),
  blk_m INTEGER CHECK (blk_m BETWEEN 16 AND 65536),
  blk_n INTEGER CHECK (blk_n BETWEEN 16 AND 65536),
  blk_k INTEGER CHECK (blk_k BETWEEN 16 AND 65536),
  blk_l INTEGER CHECK (blk_l BETWEEN 16 AND 65536),
  exchange TEXT CHECK (exchange IN ('register', 'smem', 'dsm', 'l2', 'hbm', 'recompute')),
  reduce TEXT CHECK (reduce IN ('none', 'dsm', 'l2', 'dsm_l2')),
  gate TEXT CHECK (gate IN ('sequential', 'spatial')),
  stages INTEGER CHECK (stages BETWEEN 1 AND 16),
  UNIQUE (run_id, problem_id, device_class_id, attempt, is_library, schedule),
  CHECK (is_library = (schedule = '') AND is_library = (loops IS NULL))
) STRICT;
CREATE INDEX candidates_by_problem ON candidates (problem_id, device_class_id);
CREATE INDEX candidates_by_kernel ON candidates (kernel_id);

CREATE TABLE measurements (
  id INTEGER PRIMARY KEY,
  candidate_id INTEGER NOT NULL REFERENCES candidates (id) ON DELETE CASCADE,
  cache_state TEXT NOT NULL CHECK (cache_state IN ('cold', 'hot')),
  method TEXT NOT NULL CHECK (method IN ('none', 'cupti', 'graph', 'event')),
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  n INTEGER NOT NULL CHECK (n >= 0),
  median_us REAL NOT NULL,
  p05_us REAL NOT NULL,
  p95_us REAL NOT NULL,
  least_us REAL NOT NULL,
  low_us REAL NOT NULL,
  high_us REAL NOT NULL,
  samples BLOB NOT NULL CHECK (length(samples) % 8 = 0),
  UNIQUE (candidate_id, cache_state)
) STRICT;

CREATE TABLE plans (
  id INTEGER PRIMARY KEY,
  problem_id INTEGER NOT NULL REFERENCES problems (id),
  device_class_id INTEGER NOT NULL REFERENCES device_classes (id),
  candidate_id INTEGER NOT NULL UNIQUE REFERENCES candidates (id),
  kernel_id INTEGER REFERENCES kernels (id),
  environment_id INTEGER NOT NULL REFERENCES environments (id),
  -- alphabetical order is the order of trust
  provenance TEXT NOT NULL CHECK (provenance IN ('measured', 'predicted', 'simulated')),
  est_us REAL NOT NULL CHECK (est_us >= 0),
  measured_us REAL NOT NULL CHECK (measured_us >= 0),
  measured_hot_us REAL NOT NULL CHECK (measured_hot_us >= 0),
  library_us REAL NOT NULL CHECK (library_us >= 0),
  library_hot_us REAL NOT NULL CHECK (library_hot_us >= 0),
  n_candidates INTEGER NOT NULL CHECK (n_candidates >= 0),
  n_ok INTEGER NOT NULL CHECK (n_ok >= 0),
  reason TEXT NOT NULL,
  created_unix INTEGER NOT NULL CHECK (created_unix >= 0),
  is_promoted INTEGER NOT NULL CHECK (is_promoted IN (0, 1)),
  flag TEXT NOT NULL
) STRICT;
CREATE INDEX plans_by_problem ON plans (problem_id, device_class_id, is_promoted, flag);

-- A kernel's launch descriptor in the order in which it is read; the cubin is fetched apart.
CREATE VIEW plan_records AS
SELECT p.id AS id, q.text AS problem, d.name AS device, c.is_library AS is_library,
  c.schedule AS schedule, k.sha AS sha, k.name AS kernel, k.family AS family,
  k.source_key AS source_key, k.cluster AS cluster, k.block_threads AS block_threads,
  k.smem_bytes AS smem_bytes, k.rows_per_unit AS rows_per_unit,
  k.units_per_row AS units_per_row, k.max_clusters AS max_clusters,
  k.workspace_bytes_per_row_group AS workspace_bytes_per_row_group, k.registers AS registers,
  k.spill_bytes AS spill_bytes, k.map_a_rows AS map_a_rows, k.map_a_cols AS map_a_cols,
  k.map_a_box_rows AS map_a_box_rows, k.map_a_box_cols AS map_a_box_cols,
  k.map_a_slabs AS map_a_slabs, k.map_b_rows AS map_b_rows, k.map_b_cols AS map_b_cols,
  k.map_b_box_rows AS map_b_box_rows, k.map_b_box_cols AS map_b_box_cols,
  k.map_b_slabs AS map_b_slabs, k.map_d_rows AS map_d_rows, k.map_d_cols AS map_d_cols,
  k.map_d_box_rows AS map_d_box_rows, k.map_d_box_cols AS map_d_box_cols,
  k.map_d_slabs AS map_d_slabs, p.provenance AS provenance, p.est_us AS est_us,
  p.measured_us AS measured_us, p.measured_hot_us AS measured_hot_us,
  p.library_us AS library_us, p.library_hot_us AS library_hot_us,
  p.n_candidates AS n_candidates, p.n_ok AS n_ok, p.created_unix AS created_unix,
  p.reason AS reason, p.environment_id AS environment_id, q.key AS problem_key,
  d.key AS device_class_key, p.is_promoted AS is_promoted, p.flag AS flag, r.key AS run_key,
  c.attempt AS attempt, p.problem_id AS problem_id, p.device_class_id AS device_class_id
FROM plans p
JOIN problems q ON q.id = p.problem_id
JOIN device_classes d ON d.id = p.device_class_id
JOIN candidates c ON c.id = p.candidate_id
JOIN runs r ON r.id = c.run_id
LEFT JOIN kernels k ON k.id = p.kernel_id;

-- The answer for each (problem, device class): most trusted, then newest; equal times are decided
-- by keys, so that the order in which databases were merged does not matter.
CREATE VIEW answers AS
SELECT a.* FROM plan_records a
WHERE a.id = (
  SELECT b.id FROM plan_records b
  WHERE b.problem_id = a.problem_id AND b.device_class_id = a.device_class_id
    AND b.is_promoted = 1 AND b.flag = ''
  ORDER BY b.provenance, b.created_unix DESC, b.run_key, b.attempt DESC, b.id LIMIT 1);
