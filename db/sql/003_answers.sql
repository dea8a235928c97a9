-- Schema 3: for which m a plan is the best one known, what an untuned shape loses, what was asked
-- for in vain.
PRAGMA user_version = 3;

-- Envelopes and regrets are derived from measurements: made anew after each run, import and merge.
CREATE TABLE envelopes (
  plan_id INTEGER PRIMARY KEY REFERENCES plans (id) ON DELETE CASCADE,
  m_low INTEGER NOT NULL CHECK (m_low >= 1),
  m_high INTEGER NOT NULL CHECK (m_high >= m_low)
) STRICT;

CREATE TABLE regrets (
  device_class_id INTEGER NOT NULL REFERENCES device_classes (id),
  kind TEXT NOT NULL CHECK (kind IN ('gemm_chain', 'gated_ffn', 'conv_chain')),
  distance_class INTEGER NOT NULL CHECK (distance_class BETWEEN 0 AND 5),
  n INTEGER NOT NULL CHECK (n >= 1),
  low REAL NOT NULL,
  expected REAL NOT NULL,
  high REAL NOT NULL,
  PRIMARY KEY (device_class_id, kind, distance_class)
) STRICT, WITHOUT ROWID;

CREATE TABLE misses (
  problem_text TEXT NOT NULL,
  device_name TEXT NOT NULL,
  -- miss: no plan for the problem; stale: one of another driver
  cause TEXT NOT NULL CHECK (cause IN ('miss', 'stale')),
  n INTEGER NOT NULL CHECK (n >= 1),
  first_unix INTEGER NOT NULL,
  last_unix INTEGER NOT NULL,
  PRIMARY KEY (problem_text, device_name)
) STRICT, WITHOUT ROWID;

CREATE INDEX candidates_by_schedule ON candidates (problem_id, device_class_id, schedule);
CREATE INDEX problems_by_family ON problems (kind, dtype, act, n, k, l, m);

-- The views as before, with a plan's envelope and whether its cubin is stored.
DROP VIEW answers;
DROP VIEW plan_records;

CREATE VIEW plan_records AS
SELECT p.id AS id, q.text AS problem, d.name AS device, c.is_library AS is_library,
  c.schedule AS schedule, k.sha AS sha, k.name AS kernel, k.family AS family,
  k.source_key AS source_key, k.cluster AS cluster, k.block_threads AS block_threads,
  k.smem_bytes AS smem_bytes, k.rows_per_unit AS rows_per_unit,
  k.units_per_row AS units_per_row, k.max_clusters AS max_clusters,
  k.workspace_bytes_per_row_group AS workspace_bytes_per_row_group, k.registers AS registers,
  k.spill_bytes AS spill_bytes, k.map_a_rows AS map_a_rows, k.map_a_cols AS map_a_cols,
  k.map_a_box_rows AS map_a_box_rows, k.map_a_box_cols AS map_a_box_cols,
  k.map_a_slabs AS map_a_slabs, k.map_a_parts AS map_a_parts,
  k.map_a_is_image AS map_a_is_image, k.map_b_rows AS map_b_rows, k.map_b_cols AS map_b_cols,
  k.map_b_box_rows AS map_b_box_rows, k.map_b_box_cols AS map_b_box_cols,
  k.map_b_slabs AS map_b_slabs, k.map_b_parts AS map_b_parts,
  k.map_b_is_image AS map_b_is_image, k.map_d_rows AS map_d_rows, k.map_d_cols AS map_d_cols,
  k.map_d_box_rows AS map_d_box_rows, k.map_d_box_cols AS map_d_box_cols,
  k.map_d_slabs AS map_d_slabs, k.map_d_parts AS map_d_parts,
  k.map_d_is_image AS map_d_is_image, k.cubin IS NOT NULL AS has_cubin,
  coalesce(i.m_low, q.m) AS m_low, coalesce(i.m_high, q.m) AS m_high,
  p.provenance AS provenance, p.est_us AS est_us, p.measured_us AS measured_us,
  p.measured_hot_us AS measured_hot_us, p.library_us AS library_us,
  p.library_hot_us AS library_hot_us, p.n_candidates AS n_candidates, p.n_ok AS n_ok, p.created_unix AS created_unix,
  p.reason AS reason, p.environment_id AS environment_id, q.key AS problem_key,
  d.key AS device_class_key, p.is_promoted AS is_promoted, p.flag AS flag, r.key AS run_key,
  c.attempt AS attempt, c.reduce AS reduce, p.problem_id AS problem_id, p.device_class_id AS device_class_id
FROM plans p
JOIN problems q ON q.id = p.problem_id
JOIN device_classes d ON d.id = p.device_class_id
JOIN candidates c ON c.id = p.candidate_id
JOIN runs r ON r.id = c.run_id
LEFT JOIN kernels k ON k.id = p.kernel_id
LEFT JOIN envelopes i ON i.plan_id = p.id;

-- The answer for each (problem, device class): most trusted, then newest; equal times are decided
-- by keys, so that the order in which databases were merged does not matter.
CREATE VIEW answers AS
SELECT a.* FROM plan_records a
WHERE a.id = (
  SELECT b.id FROM plan_records b
  WHERE b.problem_id = a.problem_id AND b.device_class_id = a.device_class_id
    AND b.is_promoted = 1 AND b.flag = ''
  ORDER BY b.provenance, b.created_unix DESC, b.run_key, b.attempt DESC, b.id LIMIT 1);
