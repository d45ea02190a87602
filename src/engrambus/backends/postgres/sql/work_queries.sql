-- The queries of `sqlite/sql/work_queries.sql` in this dialect: the same names, values and columns (decision 123).
-- No query names the project: row-level security does, so that one which forgets it finds nothing (decision 122).
-- What is gathered and written as many rows takes one array for each column. Where tables are joined by number, the form
-- says which is read first: the planner takes a project that it has no statistics of for a very small one.

-- name: end_later_leases
UPDATE work_tuples SET until = least(until, $1) WHERE state = 'claimed';

-- name: all_delayed
SELECT {columns}
FROM work_tuples AS t
WHERE t.state IN ('waiting', 'blocked') AND t.ready_at > 0;

-- name: set_ready
UPDATE work_tuples SET ready_at = $1, due = $2 WHERE ordinal = $3;

-- name: columns
t.ordinal, t.id, t.state, t.lane, t.rank, (SELECT r.run FROM work_runs AS r WHERE r.number = t.run), t.attempts,
    t.ready_at, t.epoch, t.counter, t.worker, t.until, t.deadline, t.retries, t.budget_micros, t.budget_tokens, t.micros,
    t.tokens, t.held_micros, t.held_tokens, t.alarmed, t.parent, t.again, t.own_micros, t.own_tokens, t.ended,
    (SELECT b.body FROM work_bodies AS b WHERE b.ordinal = t.ordinal), t.needs, t.not_before, t.grp;

-- name: state
SELECT indexed, position, seq, checksum, at, clock, synced, ordinal, receipts, links, runs, epoch, boot, counter, rules,
    figures, shape, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
FROM work_state;

-- name: lock_state
-- The time is asked for behind the lock; with it the timeline, which another server has after a failover.
WITH locked AS MATERIALIZED (
    SELECT indexed, position, seq, checksum, at, clock, synced, ordinal, receipts, links, runs, epoch, boot, counter, rules,
        figures, shape
    FROM work_state FOR UPDATE
)
SELECT locked.*, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
    left(pg_walfile_name(pg_current_wal_insert_lsn()), 8)
FROM locked;

-- name: insert_state
INSERT INTO work_state (indexed, position, seq, checksum, at, clock, synced, shape)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: set_shape
UPDATE work_state SET shape = $1;

-- name: update_state
UPDATE work_state SET position = $1, seq = $2, checksum = $3, at = $4, clock = $5, synced = $6, ordinal = $7, receipts = $8,
    links = $9, runs = $10, epoch = $11, boot = $12, counter = $13, rules = $14, figures = $15;

-- name: commit_lines
-- The lines of a commit, the state behind them, and a notification, which is only sent for kinds of waiters that there
-- are: they hold the lock in common with others.
WITH appended AS (
    INSERT INTO journal (kind, seq, line) SELECT 'tuples', * FROM unnest($16::bigint[], $17::bytea[])
)
UPDATE work_state SET position = $1, seq = $2, checksum = $3, at = $4, clock = $5, synced = $6, ordinal = $7, receipts = $8,
    links = $9, runs = $10, epoch = $11, boot = $12, counter = $13, rules = $14, figures = $15
RETURNING (
    SELECT pg_notify($18::text, kinds) FROM (
        SELECT string_agg(kind, ',') AS kinds FROM unnest($19::bigint[], $20::text[]) AS waited (lock, kind)
        WHERE NOT pg_try_advisory_xact_lock(project, lock::int)
    ) AS found
    WHERE kinds IS NOT NULL
);

-- name: insert_body
INSERT INTO work_bodies (ordinal, body)
SELECT * FROM unnest($1::bigint[], $2::bytea[]);

-- name: body
SELECT body FROM work_bodies WHERE ordinal = $1;

-- name: insert_tuple
INSERT INTO work_tuples
    (ordinal, id, state, lane, rank, run, ready_at, not_before, deadline, retries, budget_micros, budget_tokens, parent,
    needs, grp, due)
SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::text[], $4::text[], $5::bigint[], $6::bigint[],
    $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[],
    $13::bytea[], $14::bigint[], $15::bigint[], $16::bigint[]);

-- name: needs_number
SELECT number FROM work_needs WHERE digest = md5($1) AND yools = $1;

-- name: insert_needs
INSERT INTO work_needs (number, yools) SELECT coalesce(max(number), 0) + 1, $1::text FROM work_needs RETURNING number;

-- name: needs_yools
SELECT yools FROM work_needs WHERE number = $1;

-- name: insert_tuple_id
-- Nothing: indexes of the tuples and of the receipts find ids.

-- name: insert_receipt_id
-- Nothing: indexes of the tuples and of the receipts find ids.

-- name: merge_tuple_ids
-- Nothing: indexes of the tuples and of the receipts find ids.

-- name: merge_receipt_ids
-- Nothing: indexes of the tuples and of the receipts find ids.

-- name: insert_posting
INSERT INTO work_posted (path, value, live, rank, ordinal)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[]);

-- name: delete_posting
DELETE FROM work_posted WHERE path = $1 AND value = $2 AND live = $3 AND rank = $4 AND ordinal = $5;

-- name: claim
UPDATE work_tuples SET
    state = 'claimed',
    attempts = attempts + 1,
    ready_at = 0,
    epoch = ($1::bigint[])[array_position($5::bigint[], ordinal)],
    counter = ($2::bigint[])[array_position($5::bigint[], ordinal)],
    worker = ($3::text[])[array_position($5::bigint[], ordinal)],
    until = ($4::bigint[])[array_position($5::bigint[], ordinal)]
WHERE ordinal = ANY ($5::bigint[]);

-- name: renew
UPDATE work_tuples SET
    until = ($1::bigint[])[array_position($2::bigint[], ordinal)]
WHERE ordinal = ANY ($2::bigint[]);

-- name: release
UPDATE work_tuples SET
    state = 'waiting',
    attempts = attempts - ($1::bigint[])[array_position($6::bigint[], ordinal)],
    ready_at = ($2::bigint[])[array_position($6::bigint[], ordinal)],
    epoch = NULL,
    counter = NULL,
    worker = NULL,
    until = 0,
    needs = ($3::bigint[])[array_position($6::bigint[], ordinal)],
    grp = ($4::bigint[])[array_position($6::bigint[], ordinal)],
    due = ($5::bigint[])[array_position($6::bigint[], ordinal)]
WHERE ordinal = ANY ($6::bigint[]);

-- name: set_state
UPDATE work_tuples SET
    state = ($1::text[])[array_position($3::bigint[], ordinal)],
    due = ($2::bigint[])[array_position($3::bigint[], ordinal)]
WHERE ordinal = ANY ($3::bigint[]);

-- name: insert_block
INSERT INTO work_blocks (ordinal, blocker, reason, by) VALUES ($1, $2, $3, $4)
ON CONFLICT (project, ordinal, blocker) DO UPDATE SET reason = excluded.reason, by = excluded.by;

-- name: delete_block
DELETE FROM work_blocks WHERE ordinal = $1 AND blocker = $2;

-- name: delete_blocks
DELETE FROM work_blocks WHERE ordinal = $1;

-- name: move_blocks
UPDATE work_blocks SET blocker = $1 WHERE blocker = $2;

-- name: any_blocks
SELECT EXISTS (SELECT 1 FROM work_blocks);

-- name: is_blocked
SELECT EXISTS (SELECT 1 FROM work_blocks WHERE ordinal = $1);

-- name: blocks_of
SELECT blocker, reason, by FROM work_blocks
WHERE ordinal = (SELECT t.ordinal FROM work_tuples AS t WHERE t.id = $1)
ORDER BY length(blocker) = 0, blocker;

-- name: dependents
SELECT t.id FROM work_blocks AS b JOIN work_tuples AS t USING (ordinal)
WHERE b.blocker = $1
ORDER BY b.ordinal;

-- name: insert_task_change
INSERT INTO work_task_changes (ordinal, number, at, what, by, text, owner, process)
SELECT $1::bigint, coalesce(max(number), 0) + 1, $2::bigint, $3::text, $4::text, $5::text, $6::text, $7::text
FROM work_task_changes WHERE ordinal = $1;

-- name: task_changes
SELECT at, what, by, text, owner, process FROM work_task_changes
WHERE ordinal = (SELECT t.ordinal FROM work_tuples AS t WHERE t.id = $1)
ORDER BY number;

-- name: live_ordinals
SELECT t.ordinal FROM work_lane_runs AS l JOIN work_siblings AS s ON s.lane_run = l.number
    JOIN work_groups AS g ON g.siblings = s.number JOIN work_tuples AS t ON t.grp = g.number
WHERE l.lane = $1 AND t.state = 'waiting' AND t.due = 1
UNION ALL
SELECT ordinal FROM work_tuples WHERE state = 'waiting' AND due = 0 AND lane = $1
UNION ALL
SELECT ordinal FROM work_tuples WHERE state = 'claimed' AND lane = $1
UNION ALL
SELECT ordinal FROM work_tuples WHERE state = 'blocked' AND lane = $1
ORDER BY ordinal;

-- name: blocked
SELECT {columns}
FROM work_tuples AS t
WHERE t.state = 'blocked' AND ($1::text IS NULL OR t.run = (SELECT r.number FROM work_runs AS r WHERE r.run = $1))
ORDER BY t.ordinal LIMIT $2;

-- name: end_tuple
UPDATE work_tuples SET
    state = ($1::text[])[array_position($3::bigint[], ordinal)],
    ready_at = 0,
    epoch = NULL,
    counter = NULL,
    until = 0,
    ended = ($2::bigint[])[array_position($3::bigint[], ordinal)]
WHERE ordinal = ANY ($3::bigint[]);

-- name: alarm
UPDATE work_tuples SET
    alarmed = 1
WHERE ordinal = ANY ($1::bigint[]);

-- name: mark_put_again
UPDATE work_tuples SET
    again = ($1::bytea[])[array_position($2::bigint[], ordinal)]
WHERE ordinal = ANY ($2::bigint[]);

-- name: add_spent
UPDATE work_tuples SET micros = micros + $1, tokens = tokens + $2, held_micros = held_micros + $3,
    held_tokens = held_tokens + $4
WHERE ordinal = $5;

-- name: add_own_spent
UPDATE work_tuples SET own_micros = own_micros + $1, own_tokens = own_tokens + $2 WHERE ordinal = $3;

-- name: parent
SELECT parent FROM work_tuples WHERE ordinal = $1;

-- name: summary
SELECT t.ordinal, t.state, t.lane, t.rank, t.run FROM work_tuples AS t
WHERE t.id = $1;

-- name: insert_receipt
INSERT INTO work_receipts (number, id, run, body)
SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bytea[]);

-- name: tuple_ids_like
SELECT t.id FROM work_tuples AS t
WHERE t.id BETWEEN $1 AND $2 LIMIT $3;

-- name: receipt_ids_like
SELECT r.id FROM work_receipts AS r
WHERE r.id BETWEEN $1 AND $2 LIMIT $3;

-- name: recorded_receipts
SELECT r.id FROM work_receipts AS r WHERE r.id = ANY ($1::bytea[]);

-- name: insert_link
INSERT INTO work_links (ordinal, number, receipt, step)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bytea[], $4::bigint[]);

-- name: insert_hit
INSERT INTO work_hits (receipt_number, number, run, ordinal, step, receipt, at)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[],
    $7::bigint[]);

-- name: insert_result
INSERT INTO work_results (key, number)
SELECT * FROM unnest($1::text[], $2::bigint[]);

-- name: delete_result
DELETE FROM work_results WHERE number = (
    SELECT r.number FROM work_receipts AS r WHERE r.id = $1
);

-- name: record_purge
INSERT INTO work_purged (sha, at, why)
SELECT DISTINCT ON (sha) sha, at, why FROM unnest($1::bytea[], $2::bigint[], $3::text[])
    WITH ORDINALITY AS new (sha, at, why, number)
ORDER BY sha, number DESC
ON CONFLICT (project, sha) DO UPDATE SET at = excluded.at, why = excluded.why;

-- name: purged_at
SELECT at FROM work_purged WHERE sha = $1;

-- name: write_yool_cost
INSERT INTO work_yools (name, runs, micros, tokens, most_micros, most_tokens, kept_micros, kept_tokens)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (project, name) DO UPDATE SET runs = excluded.runs, micros = excluded.micros, tokens = excluded.tokens,
    most_micros = excluded.most_micros, most_tokens = excluded.most_tokens, kept_micros = excluded.kept_micros,
    kept_tokens = excluded.kept_tokens;

-- name: insert_running
INSERT INTO work_running (ordinal, step, micros, tokens, yool) VALUES ($1, $2, $3, $4, $5);

-- name: reduce_running
UPDATE work_running SET micros = micros - $1, tokens = tokens - $2 WHERE ordinal = $3 AND step = $4;

-- name: add_step_cost
INSERT INTO work_counted AS c (ordinal, epoch, counter, step, micros, tokens) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (project, ordinal, epoch, counter, step) DO UPDATE
SET micros = c.micros + excluded.micros, tokens = c.tokens + excluded.tokens;

-- name: running_step
SELECT micros, tokens, yool FROM work_running WHERE ordinal = $1 AND step = $2;

-- name: any_running
SELECT EXISTS (SELECT 1 FROM work_running);

-- name: all_running
SELECT t.id, r.step, r.micros, r.tokens FROM work_running AS r JOIN work_tuples AS t USING (ordinal)
ORDER BY ordinal, r.step;

-- name: counted_under_claim
SELECT micros, tokens FROM work_counted WHERE ordinal = $1 AND epoch = $2 AND counter = $3 AND step = $4;

-- name: running_steps
SELECT step, micros, tokens FROM work_running WHERE ordinal = $1;

-- name: delete_running
DELETE FROM work_running WHERE ordinal = $1 AND step = $2;

-- name: add_lane_counts
INSERT INTO work_lanes AS l (lane, waiting, claimed, blocked) VALUES ($1, $2, $3, $4)
ON CONFLICT (project, lane) DO UPDATE SET waiting = l.waiting + excluded.waiting, claimed = l.claimed + excluded.claimed,
    blocked = l.blocked + excluded.blocked;

-- name: run_number
SELECT number FROM work_runs WHERE run = $1;

-- name: insert_run
INSERT INTO work_runs (number, run) VALUES ($1, $2);

-- name: add_run_totals
UPDATE work_runs SET waiting = waiting + $1, blocked = blocked + $2, claimed = claimed + $3, done = done + $4, dead = dead + $5,
    cancelled = cancelled + $6, taken = taken + $7, open = open + $8, again = again + $9,
    executed = executed + $10, hits = hits + $11,
    micros = micros + $12, tokens = tokens + $13
WHERE number = $14;

-- name: tuple
SELECT {columns}
FROM work_tuples AS t
WHERE t.id = $1;

-- name: tuples
SELECT {columns}
FROM work_tuples AS t
WHERE t.id = ANY ($1::bytea[]);

-- name: waiting_needs
-- The needs of a lane's waiting tuples: one seek for each, however many tuples there are.
WITH RECURSIVE present (number) AS (
    SELECT min(needs) FROM work_lane_runs WHERE open = 1 AND lane = $1
    UNION ALL
    SELECT (
        SELECT min(needs) FROM work_lane_runs
        WHERE open = 1 AND lane = $1 AND needs > present.number
    )
    FROM present WHERE present.number IS NOT NULL
)
SELECT n.number, n.yools FROM present AS p JOIN work_needs AS n USING (number);

-- name: delayed_needs
WITH RECURSIVE present (number) AS (
    SELECT min(needs) FROM work_tuples WHERE state = 'waiting' AND due = 0 AND lane = $1
    UNION ALL
    SELECT (
        SELECT min(needs) FROM work_tuples
        WHERE state = 'waiting' AND due = 0 AND lane = $1 AND needs > present.number
    )
    FROM present WHERE present.number IS NOT NULL
)
SELECT n.number, n.yools FROM present AS p JOIN work_needs AS n USING (number);

-- name: waiting_groups
SELECT l.lane, n.yools, r.run, l.authority, g.key, w.tuples, w.oldest
FROM (
    SELECT grp, sum(tuples) AS tuples, min(oldest) AS oldest
    FROM (
        SELECT grp, count(*) AS tuples, min(ordinal) AS oldest FROM work_tuples
        WHERE state = 'waiting' AND due = 1 GROUP BY grp
        UNION ALL
        SELECT grp, count(*), min(ordinal) FROM work_tuples
        WHERE state = 'waiting' AND due = 0 AND ready_at <= $1 GROUP BY grp
    ) AS part
    GROUP BY grp
) AS w JOIN work_groups AS g ON g.number = w.grp JOIN work_siblings AS s ON s.number = g.siblings
    JOIN work_lane_runs AS l ON l.number = s.lane_run JOIN work_needs AS n ON n.number = l.needs
    JOIN work_runs AS r ON r.number = l.run;

-- name: delayed_counts
SELECT lane, count(*), min(ready_at) FROM work_tuples
WHERE state = 'waiting' AND due = 0 AND ready_at > $1
GROUP BY lane ORDER BY lane;

-- name: late
-- Whether tuples of a lane are delayed, when the first claim of an epoch ends, and whether there are earlier ones.
SELECT EXISTS (
        SELECT 1 FROM work_tuples WHERE state = 'waiting' AND due = 0 AND lane = $1
    ), (
        SELECT min(until) FROM work_tuples WHERE state = 'claimed' AND lane = $1 AND epoch = $2
    ), EXISTS (
        SELECT 1 FROM work_tuples WHERE state = 'claimed' AND lane = $1 AND epoch < $2
    );

-- name: waiting
SELECT {columns}
FROM work_tuples AS t
WHERE t.state = 'waiting' AND t.due = 1 AND t.grp = $1
ORDER BY t.ordinal;

-- name: lost
SELECT t.ordinal, t.rank, t.grp, l.run, l.served, s.parent, s.served
FROM (
    SELECT ordinal, rank, grp FROM work_tuples
    WHERE state = 'claimed' AND lane = $1 AND epoch = $2 AND until <= $3
    UNION ALL
    SELECT ordinal, rank, grp FROM work_tuples WHERE state = 'claimed' AND lane = $4 AND epoch < $5
) AS t
    CROSS JOIN LATERAL (SELECT siblings FROM work_groups WHERE number = t.grp OFFSET 0) AS g
    CROSS JOIN LATERAL (
        SELECT number, lane_run, parent, served FROM work_siblings WHERE number = g.siblings OFFSET 0
    ) AS s
    CROSS JOIN LATERAL (
        SELECT number, lane, run, authority, served FROM work_lane_runs WHERE number = s.lane_run OFFSET 0
    ) AS l
ORDER BY t.ordinal;

-- name: tuple_by_ordinal
SELECT {columns}
FROM work_tuples AS t
WHERE t.ordinal = $1;

-- name: posted_live
SELECT {columns}
FROM work_posted AS p CROSS JOIN LATERAL (
    SELECT * FROM work_tuples WHERE ordinal = p.ordinal OFFSET 0
) AS t
WHERE p.path = $1 AND p.value = $2 AND p.live = 1
ORDER BY p.rank, p.ordinal;

-- name: posted_all
SELECT {columns}
FROM work_posted AS p CROSS JOIN LATERAL (
    SELECT * FROM work_tuples WHERE ordinal = p.ordinal OFFSET 0
) AS t
WHERE p.path = $1 AND p.value = $2 AND p.ordinal > $3
ORDER BY p.ordinal;

-- name: in_lane
SELECT {columns}
FROM work_tuples AS t
WHERE t.lane = $1 AND t.ordinal > $2 AND t.state <> 'taken'
ORDER BY t.ordinal;

-- name: last_in_lane
SELECT {columns}
FROM work_tuples AS t
WHERE t.lane = $1
ORDER BY t.ordinal DESC LIMIT 1;

-- name: unfinished
SELECT {columns}
FROM work_tuples AS t
WHERE t.ordinal > $1 AND t.state NOT IN ('done', 'dead', 'cancelled', 'taken')
ORDER BY t.ordinal LIMIT $2;

-- name: claimed
SELECT {columns}
FROM work_tuples AS t
WHERE t.state = 'claimed' AND ($1::text IS NULL OR t.run = (SELECT r.number FROM work_runs AS r WHERE r.run = $1))
ORDER BY t.ordinal LIMIT $2;

-- name: dead
SELECT {columns}
FROM work_tuples AS t
WHERE t.state = 'dead' AND t.ordinal > $1
ORDER BY t.ordinal;

-- name: ended
-- The last N of all are among the last N of each of the N runs in which a tuple ended last.
WITH latest AS MATERIALIZED (
    SELECT r.number, (
        SELECT max(t.ended) FROM work_tuples AS t
        WHERE t.run = r.number AND t.ended > 0 AND (t.state <> 'dead' OR t.again IS NOT NULL)
    ) AS last
    FROM work_runs AS r
    WHERE r.run <> $2
    ORDER BY last DESC NULLS LAST LIMIT $1
), found AS MATERIALIZED (
    SELECT e.ordinal FROM latest AS l
    CROSS JOIN LATERAL (
        SELECT t.ordinal, t.ended FROM work_tuples AS t
        WHERE t.run = l.number AND t.ended > 0 AND (t.state <> 'dead' OR t.again IS NOT NULL)
        ORDER BY t.ended DESC LIMIT $1
    ) AS e
    ORDER BY e.ended DESC LIMIT $1
)
SELECT {columns}
FROM found AS f JOIN work_tuples AS t USING (ordinal)
ORDER BY t.ended DESC;

-- name: ended_in
SELECT {columns}
FROM work_tuples AS t
WHERE t.run = (SELECT number FROM work_runs WHERE run = $1) AND t.ended > 0 AND (t.state <> 'dead' OR t.again IS NOT NULL)
ORDER BY t.ended DESC LIMIT $2;

-- name: dead_letters
SELECT {columns}
FROM work_tuples AS t
WHERE t.state = 'dead' AND t.ended < $1 AND (t.again IS NULL OR $2 <> 0) 
    AND ($3::text IS NULL OR t.run = (SELECT r.number FROM work_runs AS r WHERE r.run = $3))
    AND ($4::text IS NULL OR t.lane = $4)
ORDER BY t.ended DESC LIMIT $5;

-- name: everything
SELECT {columns}
FROM work_tuples AS t
WHERE t.ordinal > $1 AND t.state <> 'taken'
ORDER BY t.ordinal;

-- name: insert_idempotent_put
INSERT INTO work_asked (key, id, request, accepted)
SELECT * FROM unnest($1::text[], $2::bytea[], $3::text[], $4::bytea[]);

-- name: idempotent_put
SELECT id, request, accepted FROM work_asked WHERE key = $1;

-- name: waiting_count
SELECT waiting + blocked FROM work_lanes WHERE lane = $1;

-- name: lane_counts
SELECT lane, waiting, claimed, blocked FROM work_lanes WHERE waiting <> 0 OR claimed <> 0 OR blocked <> 0;

-- name: next_delayed
SELECT min(ready_at) FROM work_tuples
WHERE state = 'waiting' AND due = 0 AND lane = $1 AND needs = $2 AND ready_at > $3;

-- name: next_lease_end
SELECT min(until) FROM work_tuples WHERE state = 'claimed' AND lane = $1 AND until > $2;

-- name: not_due_yet
SELECT {columns}
FROM work_tuples AS t
WHERE t.state = 'waiting' AND t.due = 0 AND t.lane = $1 AND t.needs = $2 AND t.ready_at > $3
ORDER BY t.ready_at;

-- name: claimed_in_lane
SELECT {columns}
FROM work_tuples AS t
WHERE t.state = 'claimed' AND t.lane = $1 AND t.until > $2
ORDER BY t.until;

-- name: finished
SELECT step, receipt FROM work_links
WHERE ordinal = (SELECT t.ordinal FROM work_tuples AS t WHERE t.id = $1) AND step IS NOT NULL
ORDER BY number;

-- name: receipts_of
SELECT receipt FROM work_links WHERE ordinal = (SELECT t.ordinal FROM work_tuples AS t WHERE t.id = $1) ORDER BY number;

-- name: receipt
SELECT r.body FROM work_receipts AS r WHERE r.id = $1;

-- name: receipts
SELECT number, body FROM work_receipts WHERE number > $1 ORDER BY number LIMIT $2;

-- name: receipts_in
SELECT number, body FROM work_receipts
WHERE run = (SELECT number FROM work_runs WHERE run = $1) AND number > $2
ORDER BY number LIMIT $3;

-- name: newest_receipts
SELECT number, body FROM work_receipts WHERE number < $1 ORDER BY number DESC LIMIT $2;

-- name: newest_receipts_in
SELECT number, body FROM work_receipts
WHERE run = (SELECT number FROM work_runs WHERE run = $1) AND number < $2
ORDER BY number DESC LIMIT $3;

-- name: newest_hits
SELECT h.receipt_number, h.number, t.id, h.step, h.at, h.receipt FROM work_hits AS h JOIN work_tuples AS t USING (ordinal)
WHERE (h.receipt_number, h.number) < ($1, $2)
ORDER BY h.receipt_number DESC, h.number DESC LIMIT $3;

-- name: newest_hits_in
SELECT h.receipt_number, h.number, t.id, h.step, h.at, h.receipt
FROM work_hits AS h JOIN work_tuples AS t USING (ordinal)
WHERE h.run = (SELECT number FROM work_runs WHERE run = $1) AND (h.receipt_number, h.number) < ($2, $3)
ORDER BY h.receipt_number DESC, h.number DESC LIMIT $4;

-- name: cached_receipt
SELECT body FROM work_receipts WHERE number = (SELECT max(number) FROM work_results WHERE key = $1);

-- name: yool_cost
SELECT runs, micros, tokens, most_micros, most_tokens, kept_micros, kept_tokens FROM work_yools WHERE name = $1;

-- name: step_cost
SELECT micros, tokens FROM work_counted
WHERE ordinal = (SELECT t.ordinal FROM work_tuples AS t WHERE t.id = $1) AND epoch = $2 AND counter = $3 AND step = $4;

-- name: run_totals
SELECT number, run, waiting, blocked, claimed, done, dead, cancelled, taken, open, again, executed, hits, micros, tokens
FROM work_runs ORDER BY number;

-- name: lane_run
SELECT number FROM work_lane_runs WHERE lane = $1 AND run = $2 AND needs = $3 AND rank = $4 AND authority = $5;

-- name: insert_lane_run
INSERT INTO work_lane_runs (number, lane, run, needs, rank, authority, served)
SELECT coalesce(max(number), 0) + 1, $1::text, $2::bigint, $3::bigint, $4::bigint, $5::text,
    (SELECT coalesce(max(served), 0) FROM work_lane_runs WHERE lane = $1 AND run = $2)
FROM work_lane_runs
RETURNING number;

-- name: sibling
SELECT number FROM work_siblings WHERE lane_run = $1 AND parent = $2;

-- name: insert_sibling
INSERT INTO work_siblings (number, lane_run, parent, served)
SELECT coalesce(max(number), 0) + 1, $1::bigint, $2::bigint, (
    SELECT coalesce(max(s.served), 0) FROM work_lane_runs AS l JOIN work_siblings AS s ON s.lane_run = l.number
    WHERE l.lane = $3 AND l.run = $4 AND s.parent = $2
)
FROM work_siblings
RETURNING number;

-- name: group
SELECT number FROM work_groups WHERE siblings = $1 AND key = $2;

-- name: insert_group
INSERT INTO work_groups (number, siblings, key, head)
SELECT coalesce(max(number), 0) + 1, $1::bigint, $2::text, $3::bigint FROM work_groups
ON CONFLICT (project, siblings, key) DO NOTHING
RETURNING number;

-- name: group_fields
SELECT l.lane, l.run, l.authority, s.parent, g.key, (SELECT r.run FROM work_runs AS r WHERE r.number = l.run), l.number, s.number
FROM work_groups AS g
    CROSS JOIN LATERAL (
        SELECT number, lane_run, parent, served FROM work_siblings WHERE number = g.siblings OFFSET 0
    ) AS s
    CROSS JOIN LATERAL (
        SELECT number, lane, run, authority, served FROM work_lane_runs WHERE number = s.lane_run OFFSET 0
    ) AS l
WHERE g.number = $1;

-- name: wait_of
SELECT ready_at, grp FROM work_tuples WHERE ordinal = $1;

-- name: group_of
SELECT grp FROM work_tuples WHERE ordinal = $1;

-- name: fill_group
UPDATE work_groups SET head = least(head, $1), state = CASE state WHEN 0 THEN 1 ELSE state END WHERE number = $2;

-- name: open_siblings
UPDATE work_siblings SET open = 1 WHERE number = $1 AND open = 0;

-- name: open_lane_run
UPDATE work_lane_runs SET open = 1 WHERE number = (SELECT lane_run FROM work_siblings WHERE number = $1) AND open = 0;

-- name: serve_run
UPDATE work_lane_runs SET served = $1 WHERE lane = $2 AND run = $3;

-- name: serve_parent
UPDATE work_siblings SET served = $1 WHERE parent = $2 AND lane_run IN (
    SELECT number FROM work_lane_runs WHERE lane = $3 AND run = $4
);

-- name: runs_in_turn
SELECT l.number, l.rank, l.served, l.run, l.authority,
    (SELECT r.run FROM work_runs AS r WHERE r.number = l.run)
FROM work_lane_runs AS l
WHERE l.open = 1 AND l.lane = $1 AND l.needs = $2
ORDER BY l.rank DESC, l.served, l.run;

-- name: siblings_in_turn
SELECT number, served, parent FROM work_siblings WHERE open = 1 AND lane_run = $1
ORDER BY served, parent;

-- name: groups_in_turn
SELECT number, head, key FROM work_groups WHERE state = 1 AND siblings = $1 ORDER BY head;

-- name: close_group
UPDATE work_groups SET state = $1 WHERE number = $2;

-- name: advance_group
UPDATE work_groups SET head = $1 WHERE number = $2 AND state = 1;

-- name: close_siblings
UPDATE work_siblings SET open = 0
WHERE number = $1 AND NOT EXISTS (SELECT 1 FROM work_groups WHERE state = 1 AND siblings = $1);

-- name: close_lane_run
UPDATE work_lane_runs SET open = 0
WHERE number = $1 AND NOT EXISTS (SELECT 1 FROM work_siblings WHERE open = 1 AND lane_run = $1);

-- name: hold_group
INSERT INTO work_held (pool, grp) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: close_pool
INSERT INTO work_closed (pool, until) VALUES ($1, $2::bigint) ON CONFLICT (project, pool) DO UPDATE SET until = excluded.until;

-- name: due_pools
SELECT pool FROM work_closed WHERE until <= $1;

-- name: due_pool_exists
SELECT EXISTS (SELECT 1 FROM work_closed WHERE until <= $1);

-- name: any_held
SELECT EXISTS (SELECT 1 FROM work_held);

-- name: next_opening
SELECT c.until FROM work_closed AS c
WHERE c.until > $1 AND ($2::text IS NULL OR EXISTS (
    SELECT 1 FROM work_held AS h JOIN work_groups AS g ON g.number = h.grp JOIN work_siblings AS s ON s.number = g.siblings
        JOIN work_lane_runs AS l ON l.number = s.lane_run
    WHERE h.pool = c.pool AND l.lane = $2
))
ORDER BY c.until LIMIT 1;

-- name: open_held_lane_runs
-- What the pools from the first to the second name hold.
UPDATE work_lane_runs SET open = 1 WHERE open = 0 AND number IN (
    SELECT s.lane_run FROM work_held AS h JOIN work_groups AS g ON g.number = h.grp
        JOIN work_siblings AS s ON s.number = g.siblings
    WHERE h.pool BETWEEN $1 AND $2
);

-- name: open_held_siblings
UPDATE work_siblings SET open = 1 WHERE open = 0 AND number IN (
    SELECT g.siblings FROM work_held AS h JOIN work_groups AS g ON g.number = h.grp WHERE h.pool BETWEEN $1 AND $2
);

-- name: open_held_groups
UPDATE work_groups SET state = 1 WHERE number IN (SELECT grp FROM work_held WHERE pool BETWEEN $1 AND $2);

-- name: forget_held
DELETE FROM work_held WHERE pool BETWEEN $1 AND $2;

-- name: forget_closed
DELETE FROM work_closed WHERE pool BETWEEN $1 AND $2 RETURNING 1;

-- name: promote
-- Tuples whose time has come wait like the others from now on.
UPDATE work_tuples SET due = 1 WHERE ordinal IN (
    SELECT ordinal FROM work_tuples
    WHERE state = 'waiting' AND due = 0 AND lane = $1 AND needs = $2 AND ready_at <= $3 ORDER BY ready_at LIMIT $4
) RETURNING ordinal, grp;

-- name: rules
SELECT body FROM work_rules;

-- name: set_rule
INSERT INTO work_rules (name, body) VALUES ($1, $2) ON CONFLICT (project, name) DO UPDATE SET body = excluded.body;

-- name: remove_rule
DELETE FROM work_rules WHERE name = $1;

-- name: forget_starts
DELETE FROM work_starts WHERE pool BETWEEN $1 AND $2;

-- name: clear_slots
DELETE FROM work_slots;

-- name: insert_slot
INSERT INTO work_slots (pool, ordinal) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- name: pools_of_tuple
SELECT pool FROM work_slots WHERE ordinal = $1;

-- name: delete_slots
DELETE FROM work_slots WHERE ordinal = $1;

-- name: claimed_groups
SELECT ordinal, grp FROM work_tuples WHERE state = 'claimed';

-- name: slot_use
SELECT count(*), min(t.until) FROM work_slots AS s JOIN work_tuples AS t USING (ordinal)
WHERE s.pool = $1 AND t.state = 'claimed' AND t.epoch = $2 AND t.until > $3;

-- name: insert_start
INSERT INTO work_starts (pool, number, at)
SELECT $1::text, coalesce(max(number), 0) + 1, $2::bigint FROM work_starts WHERE pool = $1;

-- name: trim_starts
DELETE FROM work_starts WHERE pool = $1 AND number <= (SELECT max(number) FROM work_starts WHERE pool = $1) - $2;

-- name: starts_within
-- The numbers of a pool's starts follow each other, so nothing is counted.
SELECT coalesce((SELECT max(number) FROM work_starts WHERE pool = $1), 0) - coalesce(
    (
        SELECT number FROM work_starts WHERE pool = $1 AND at <= $2
        ORDER BY at DESC, number DESC LIMIT 1
    ),
    (SELECT min(number) - 1 FROM work_starts WHERE pool = $1),
    0
);

-- name: nth_last_start
SELECT at FROM work_starts WHERE pool = $1 AND number = (SELECT max(number) FROM work_starts WHERE pool = $1) - $2;

-- name: correct_starts
UPDATE work_starts SET at = $1 WHERE at > $1;

-- name: pools_used
SELECT pool FROM work_slots WHERE pool BETWEEN $1 AND $2
UNION
SELECT pool FROM work_starts WHERE pool BETWEEN $1 AND $2;

-- name: lone
SELECT t.ordinal, t.rank, t.grp, l.run, l.served, s.parent, s.served
FROM work_tuples AS t
    CROSS JOIN LATERAL (SELECT siblings FROM work_groups WHERE number = t.grp OFFSET 0) AS g
    CROSS JOIN LATERAL (
        SELECT number, lane_run, parent, served FROM work_siblings WHERE number = g.siblings OFFSET 0
    ) AS s
    CROSS JOIN LATERAL (
        SELECT number, lane, run, authority, served FROM work_lane_runs WHERE number = s.lane_run OFFSET 0
    ) AS l
WHERE t.ordinal = $1;

-- name: delayed_lone
-- The first of the tuples whose time has come since the last claim.
SELECT t.ordinal, t.rank, t.grp, l.run, l.served, s.parent, s.served
FROM work_tuples AS t
    CROSS JOIN LATERAL (SELECT siblings FROM work_groups WHERE number = t.grp OFFSET 0) AS g
    CROSS JOIN LATERAL (
        SELECT number, lane_run, parent, served FROM work_siblings WHERE number = g.siblings OFFSET 0
    ) AS s
    CROSS JOIN LATERAL (
        SELECT number, lane, run, authority, served FROM work_lane_runs WHERE number = s.lane_run OFFSET 0
    ) AS l
WHERE t.state = 'waiting' AND t.due = 0 AND t.lane = $1 AND t.needs = $2 AND t.ready_at <= $3
ORDER BY t.ready_at LIMIT $4;

-- name: group_state
SELECT state, head, siblings FROM work_groups WHERE number = $1;

-- name: any_batch
SELECT EXISTS (SELECT 1 FROM work_batches);

-- name: insert_batch
INSERT INTO work_batches (ordinal, lane, rank, depth, branching, template, retries, folded)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: batch
SELECT t.id, b.ordinal, r.run, b.lane, b.rank, b.depth, b.branching, b.template, b.retries, b.folded, t.state
FROM work_tuples AS t JOIN work_batches AS b USING (ordinal)
    JOIN work_runs AS r ON r.number = t.run
WHERE t.id = $1;

-- name: batches
SELECT t.id, b.ordinal, r.run, b.lane, b.rank, b.depth, b.branching, b.template, b.retries, b.folded, t.state
FROM work_batches AS b JOIN work_tuples AS t USING (ordinal) JOIN work_runs AS r ON r.number = t.run
WHERE ($1::text IS NULL OR r.run = $1) AND b.ordinal < $2
ORDER BY b.ordinal DESC LIMIT $3;

-- name: folded_batches
SELECT t.id, b.ordinal, r.run, b.lane, b.rank, b.depth, b.branching, b.template, b.retries, b.folded, t.state
FROM work_batches AS b JOIN work_tuples AS t USING (ordinal)
    JOIN work_runs AS r ON r.number = t.run
WHERE b.folded > 0 AND b.lane = $1
ORDER BY b.rank DESC, b.ordinal LIMIT nullif($2, -1);

-- name: folded_batches_of_all_lanes
SELECT t.id, b.ordinal, r.run, b.lane, b.rank, b.depth, b.branching, b.template, b.retries, b.folded, t.state
FROM work_batches AS b JOIN work_tuples AS t USING (ordinal)
    JOIN work_runs AS r ON r.number = t.run
WHERE b.folded > 0
ORDER BY b.rank DESC, b.ordinal LIMIT nullif($1, -1);

-- name: batch_shape
SELECT branching, depth FROM work_batches WHERE ordinal = $1;

-- name: add_folded
UPDATE work_batches SET folded = folded + $1 WHERE ordinal = $2;

-- name: folded_leaves
SELECT start, stop FROM work_folded_leaves WHERE batch = $1 ORDER BY start LIMIT nullif($2, -1);

-- name: folded_leaves_meeting
-- The ranges that overlap or touch a range: of those that begin before its end, the ones that end behind its start.
SELECT start, stop FROM work_folded_leaves WHERE batch = $1 AND start <= $3 AND stop >= $2
    AND start >= (SELECT coalesce(max(start), 0) FROM work_folded_leaves WHERE batch = $1 AND start <= $2)
ORDER BY start;

-- name: insert_folded_leaves
INSERT INTO work_folded_leaves (batch, start, stop) VALUES ($1, $2, $3);

-- name: delete_folded_leaves
DELETE FROM work_folded_leaves WHERE batch = $1 AND start = $2;

-- name: add_folded_ends
INSERT INTO work_folded_ends AS e (batch, level, state, agents) VALUES ($1, $2, $3, $4)
ON CONFLICT (project, batch, level, state) DO UPDATE SET agents = e.agents + excluded.agents;

-- name: insert_agent
INSERT INTO work_agents (ordinal, batch, level, number, children, children_left, idle) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: not_idle
UPDATE work_agents SET idle = 0 WHERE ordinal = $1 AND idle = 1;

-- name: keep_agent
UPDATE work_agents SET kept = 1 WHERE ordinal = $1;

-- name: keep_agent_with_id
UPDATE work_agents SET kept = 1 WHERE ordinal IN (SELECT t.ordinal FROM work_tuples AS t WHERE t.id = $1);

-- name: update_agent
UPDATE work_agents SET children_left = $1, dead = $2, cancelled = $3 WHERE ordinal = $4;

-- name: agent_by_ordinal
SELECT a.ordinal, a.batch, a.level, a.number, a.children, a.children_left, a.dead, a.cancelled, a.idle, a.kept
FROM work_agents AS a WHERE a.ordinal = $1;

-- name: agent_by_place
SELECT a.ordinal, a.batch, a.level, a.number, a.children, a.children_left, a.dead, a.cancelled, a.idle, a.kept
FROM work_agents AS a WHERE a.batch = $1 AND a.level = $2 AND a.number = $3;

-- name: agents
SELECT a.ordinal, a.batch, a.level, a.number, a.children, a.children_left, a.dead, a.cancelled, a.idle, a.kept, t.id, b.id
FROM work_tuples AS t JOIN work_agents AS a USING (ordinal)
    JOIN work_tuples AS b ON b.ordinal = a.batch
WHERE t.id = ANY ($1::bytea[]);

-- name: agents_at
SELECT a.ordinal, a.batch, a.level, a.number, a.children, a.children_left, a.dead, a.cancelled, a.idle, a.kept, t.id, b.id
FROM work_agents AS a JOIN work_tuples AS t USING (ordinal)
    JOIN work_tuples AS b ON b.ordinal = a.batch
WHERE a.batch = $1 AND a.level = $2 AND a.number >= $3 AND a.number < $4
    AND ($5 = 0 OR t.state NOT IN ('done', 'dead', 'cancelled', 'taken'))
ORDER BY a.number LIMIT nullif($6, -1);

-- name: kept_agents
SELECT a.ordinal, a.batch, a.level, a.number, a.children, a.children_left, a.dead, a.cancelled, a.idle, a.kept, t.id, b.id
FROM work_agents AS a JOIN work_tuples AS t USING (ordinal)
    JOIN work_tuples AS b ON b.ordinal = a.batch
WHERE a.batch = $1 AND a.kept = 1 AND a.level > 0
ORDER BY a.level, a.number;

-- name: idle_leaves
SELECT number FROM work_agents WHERE batch = $1 AND idle = 1 ORDER BY number LIMIT nullif($2, -1);

-- name: level_counts
SELECT a.level, t.state, count(*), sum(t.own_micros), sum(t.own_tokens),
    sum((SELECT count(*) FROM work_links AS l WHERE l.ordinal = a.ordinal))
FROM work_agents AS a JOIN work_tuples AS t USING (ordinal)
WHERE a.batch = $1
GROUP BY a.level, t.state;

-- name: folded_ends
SELECT level, state, agents FROM work_folded_ends WHERE batch = $1;

-- name: delete_agent
DELETE FROM work_agents WHERE ordinal = $1;

-- name: delete_tuple
DELETE FROM work_tuples WHERE ordinal = $1;

-- name: delete_body
DELETE FROM work_bodies WHERE ordinal = $1;

-- name: delete_tuple_id
-- Nothing: indexes of the tuples and of the receipts find ids.

-- name: delete_new_tuple_id
-- Nothing: indexes of the tuples and of the receipts find ids.

-- name: tuple_id
SELECT id FROM work_tuples WHERE ordinal = $1;

-- name: insert_schedule
INSERT INTO work_schedules (number, name, run, added_by, look, added, state)
SELECT coalesce(max(number), 0) + 1, $1::text, $2::text, $3::text, $4::bigint, $5::bytea, $6::bytea FROM work_schedules;

-- name: update_schedule
UPDATE work_schedules SET look = $1, state = $2 WHERE name = $3;

-- name: delete_schedule
DELETE FROM work_schedules WHERE name = $1;

-- name: schedule
SELECT added, state FROM work_schedules WHERE name = $1;

-- name: schedules
SELECT added, state FROM work_schedules
WHERE (look, name) > ($1, $2) AND look <= $3 AND ($4::text IS NULL OR run = $4) AND ($5::text IS NULL OR added_by = $5)
ORDER BY look, name LIMIT nullif($6, -1);

-- name: schedule_count
SELECT count(*) FROM work_schedules;

-- name: schedule_count_of
SELECT count(*) FROM work_schedules WHERE added_by = $1;

-- name: next_look
SELECT min(look) FROM work_schedules WHERE look < $1;

-- name: yool_names
SELECT name FROM work_yools;

-- name: served_runs
SELECT number, lane, run, served FROM work_lane_runs ORDER BY number;

-- name: served_parents
SELECT s.number, l.lane, l.run, s.parent, s.served FROM work_siblings AS s JOIN work_lane_runs AS l ON l.number = s.lane_run
ORDER BY s.number;

-- name: last_line
SELECT max(seq) FROM journal WHERE kind = $1;

-- name: announce_worker
INSERT INTO work_workers (id, body) VALUES ($1, $2) ON CONFLICT (project, id) DO UPDATE SET body = excluded.body;

-- name: withdraw_worker
DELETE FROM work_workers WHERE id = $1;

-- name: announced_workers
SELECT body FROM work_workers ORDER BY id;
