-- What of `backends/sqlite/sql/queries.sql` PostgreSQL says in other words, and what only it asks.

-- name: state
SELECT position, seq, checksum, at, clock, ordinal, runs, pending, tail, merged, identity, built FROM applied;

-- name: lock_state
SELECT position, seq, checksum, at, clock, ordinal, runs, pending, tail, merged, identity, built FROM applied FOR UPDATE;

-- name: lock_state_if_free
SELECT position, seq, checksum, at, clock, ordinal, runs, pending, tail, merged, identity, built FROM applied
FOR UPDATE SKIP LOCKED;

-- name: insert_state
INSERT INTO applied (position, seq, checksum, at, clock, ordinal, runs, pending, tail, merged, identity, built)
VALUES ($1, $2, $3, $4, $5, 0, 0, 0, 0, 0, 0, $6);

-- name: correct_turns
UPDATE turns SET last_at = least(last_at, $1);

-- name: correct_agents
UPDATE agents SET added_at = least(added_at, $1);

-- name: insert_posting
INSERT INTO postings (row_id, token) SELECT DISTINCT CAST($1 AS bigint), unnest(string_to_array($2, ' '));

-- name: delete_posting
DELETE FROM postings WHERE row_id = $1;

-- name: is_in_tail
SELECT 1 FROM postings WHERE row_id = $1 LIMIT 1;

-- name: delete_tail
DELETE FROM postings;

-- name: tail_terms
SELECT token, row_id FROM postings;

-- name: append_to_block
INSERT INTO posting_blocks (token, block, offsets) VALUES ($1, $2, $3)
ON CONFLICT (project, token, block) DO UPDATE SET offsets = posting_blocks.offsets || excluded.offsets;

-- name: posted_under
SELECT row_id FROM postings WHERE token = $1 AND row_id > $2 ORDER BY row_id LIMIT $3;

-- name: posted_under_all
-- The tokens are a parameter as they are: row-level security keeps an index from being asked with a function's result.
SELECT row_id FROM postings WHERE token = ANY ($1) AND row_id > $2
GROUP BY row_id HAVING count(*) = $3 ORDER BY row_id LIMIT $4;

-- name: posting_lists
SELECT token, block, offsets FROM posting_blocks WHERE token = ANY ($1) ORDER BY token, block DESC;

-- name: tail_lists
SELECT token, row_id FROM postings WHERE token = ANY ($1);

-- name: posted
-- Asked as `tail_lists`.

-- name: posted_before
-- Asked as `posted_under` and `posted_under_all`.

-- name: traits_of
SELECT ordinal, id, scope, created_at, confidence, names, sequence FROM engrams WHERE ordinal = ANY ($1);

-- name: bodies_of
SELECT ordinal, body FROM engrams WHERE ordinal = ANY ($1);

-- name: sequences_of
SELECT ordinal, sequence FROM engrams WHERE ordinal = ANY ($1) AND space = $2 AND sequence <> 0 AND expires_at > $3;

-- name: expired
SELECT ordinal FROM engrams WHERE expires_at <= $1 ORDER BY expires_at LIMIT nullif($2, -1);

-- name: refuse_learned
INSERT INTO unwanted (key) SELECT convert_from(body, 'UTF8')::json ->> 'key' FROM learned WHERE ordinal = $1
ON CONFLICT DO NOTHING;

-- name: add_outcomes
INSERT INTO outcomes (run, agent, letters) VALUES ($1, $2, right($3, 400))
ON CONFLICT (project, run, agent) DO UPDATE SET letters = right(outcomes.letters || excluded.letters, 400);
