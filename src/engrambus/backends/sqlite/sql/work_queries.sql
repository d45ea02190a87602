-- Inserts of many rows say OR FAIL (decision 35): a failure rolls back the transaction anyway, so SQLite need not copy
-- every page it is about to change in case only this statement had to be undone.

-- name: end_later_leases
UPDATE tuples SET until = min(until, ?) WHERE state = 'claimed';

-- name: all_delayed
SELECT {columns}
FROM tuples AS t CROSS JOIN bodies AS b USING (ordinal) CROSS JOIN runs AS r ON r.number = t.run
WHERE t.state IN ('waiting', 'blocked') AND t.ready_at > 0;

-- name: set_ready
UPDATE tuples SET ready_at = ?, due = ? WHERE ordinal = ?;

-- name: columns
t.ordinal, t.id, t.state, t.lane, t.rank, r.run, t.attempts, t.ready_at, t.epoch, t.counter, t.worker, t.until,
    t.deadline, t.retries, t.budget_micros, t.budget_tokens, t.micros, t.tokens, t.held_micros, t.held_tokens,
    t.alarmed, t.parent, t.again, t.own_micros, t.own_tokens, t.ended, b.body, t.needs, t.not_before, t.grp;

-- name: state
SELECT layout, project, indexed, position, seq, checksum, at, clock, synced, machine, ordinal, receipts, links, runs, epoch,
    boot, counter, sorted_tuples, sorted_receipts, rules, figures, shape
FROM applied;

-- name: insert_state
INSERT INTO applied VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0, 0, '', 0, 0, ?, x'7B7D');

-- name: set_shape
UPDATE applied SET shape = ?;

-- name: update_state
UPDATE applied SET position = ?, seq = ?, checksum = ?, at = ?, clock = ?, synced = ?, machine = ?, ordinal = ?, receipts = ?,
    links = ?, runs = ?, epoch = ?, boot = ?, counter = ?, sorted_tuples = ?, sorted_receipts = ?, rules = ?, figures = ?;

-- name: insert_body
INSERT OR FAIL INTO bodies VALUES (?, ?);

-- name: body
SELECT body FROM bodies WHERE ordinal = ?;

-- name: insert_tuple
INSERT OR FAIL INTO tuples
    (ordinal, id, state, lane, rank, run, ready_at, not_before, deadline, retries, budget_micros, budget_tokens, parent,
    needs, grp, due)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: needs_number
SELECT number FROM needs WHERE yools = ?;

-- name: insert_needs
INSERT INTO needs (yools) VALUES (?) RETURNING number;

-- name: needs_yools
SELECT yools FROM needs WHERE number = ?;

-- name: insert_tuple_id
INSERT OR FAIL INTO new_tuple_ids VALUES (?, ?);

-- name: insert_receipt_id
INSERT OR FAIL INTO new_receipt_ids VALUES (?, ?);

-- name: merge_tuple_ids
INSERT INTO tuple_ids SELECT head, ordinal FROM new_tuple_ids ORDER BY head, ordinal;
DELETE FROM new_tuple_ids;

-- name: merge_receipt_ids
INSERT INTO receipt_ids SELECT head, number FROM new_receipt_ids ORDER BY head, number;
DELETE FROM new_receipt_ids;

-- name: insert_posting
INSERT OR FAIL INTO posted VALUES (?, ?, ?, ?, ?);

-- name: delete_posting
DELETE FROM posted WHERE path = ? AND value = ? AND live = ? AND rank = ? AND ordinal = ?;

-- name: claim
UPDATE tuples SET state = 'claimed', attempts = attempts + 1, ready_at = 0, epoch = ?, counter = ?, worker = ?,
    until = ?
WHERE ordinal = ?;

-- name: renew
UPDATE tuples SET until = ? WHERE ordinal = ?;

-- name: release
UPDATE tuples SET state = 'waiting', attempts = attempts - ?, ready_at = ?, epoch = NULL, counter = NULL,
    worker = NULL, until = 0, needs = ?, grp = ?, due = ?
WHERE ordinal = ?;

-- name: set_state
UPDATE tuples SET state = ?, due = ? WHERE ordinal = ?;

-- name: insert_block
INSERT OR REPLACE INTO blocks VALUES (?, ?, ?, ?);

-- name: delete_block
DELETE FROM blocks WHERE ordinal = ? AND blocker = ?;

-- name: delete_blocks
DELETE FROM blocks WHERE ordinal = ?;

-- name: move_blocks
UPDATE blocks SET blocker = ? WHERE blocker = ?;

-- name: any_blocks
SELECT EXISTS (SELECT 1 FROM blocks);

-- name: is_blocked
SELECT EXISTS (SELECT 1 FROM blocks WHERE ordinal = ?);

-- name: blocks_of
SELECT blocker, reason, by FROM blocks
WHERE ordinal = (
    SELECT t.ordinal FROM all_tuple_ids AS i CROSS JOIN tuples AS t USING (ordinal) WHERE i.head = ? AND t.id = ?
)
ORDER BY length(blocker) = 0, blocker;

-- name: dependents
SELECT t.id FROM blocks AS b INDEXED BY blocks_by_blocker CROSS JOIN tuples AS t USING (ordinal)
WHERE b.blocker = ?
ORDER BY b.ordinal;

-- name: insert_task_change
INSERT INTO task_changes
SELECT ?1, coalesce((SELECT max(number) FROM task_changes WHERE ordinal = ?1), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7;

-- name: task_changes
SELECT at, what, by, text, owner, process FROM task_changes
WHERE ordinal = (
    SELECT t.ordinal FROM all_tuple_ids AS i CROSS JOIN tuples AS t USING (ordinal) WHERE i.head = ? AND t.id = ?
)
ORDER BY number;

-- name: live_ordinals
SELECT t.ordinal FROM lane_runs AS l INDEXED BY lane_run CROSS JOIN siblings AS s ON s.lane_run = l.number
    CROSS JOIN groups AS g ON g.siblings = s.number CROSS JOIN tuples AS t INDEXED BY waiting ON t.grp = g.number
WHERE l.lane = ?1 AND t.state = 'waiting' AND t.due = 1
UNION ALL
SELECT ordinal FROM tuples INDEXED BY delayed WHERE state = 'waiting' AND due = 0 AND lane = ?1
UNION ALL
SELECT ordinal FROM tuples INDEXED BY claimed WHERE state = 'claimed' AND lane = ?1
UNION ALL
SELECT ordinal FROM tuples INDEXED BY blocked WHERE state = 'blocked' AND lane = ?1
ORDER BY ordinal;

-- name: blocked
SELECT {columns}
FROM tuples AS t INDEXED BY blocked CROSS JOIN bodies AS b USING (ordinal) CROSS JOIN runs AS r ON r.number = t.run
WHERE t.state = 'blocked' AND (?1 IS NULL OR r.run = ?1)
ORDER BY t.ordinal LIMIT ?2;

-- name: end_tuple
UPDATE tuples SET state = ?, ready_at = 0, epoch = NULL, counter = NULL, until = 0, ended = ? WHERE ordinal = ?;

-- name: alarm
UPDATE tuples SET alarmed = 1 WHERE ordinal = ?;

-- name: mark_put_again
UPDATE tuples SET again = ? WHERE ordinal = ?;

-- name: add_spent
UPDATE tuples SET micros = micros + ?, tokens = tokens + ?, held_micros = held_micros + ?,
    held_tokens = held_tokens + ?
WHERE ordinal = ?;

-- name: add_own_spent
UPDATE tuples SET own_micros = own_micros + ?, own_tokens = own_tokens + ? WHERE ordinal = ?;

-- name: parent
SELECT parent FROM tuples WHERE ordinal = ?;

-- name: summary
SELECT t.ordinal, t.state, t.lane, t.rank, t.run FROM all_tuple_ids AS i CROSS JOIN tuples AS t USING (ordinal)
WHERE i.head = ? AND t.id = ?;

-- name: insert_receipt
INSERT OR FAIL INTO receipts VALUES (?, ?, ?, ?);

-- name: tuple_ids_like
SELECT t.id FROM all_tuple_ids AS i CROSS JOIN tuples AS t USING (ordinal)
WHERE i.head BETWEEN ? AND ? AND t.id BETWEEN ? AND ? LIMIT ?;

-- name: receipt_ids_like
SELECT r.id FROM all_receipt_ids AS i CROSS JOIN receipts AS r USING (number)
WHERE i.head BETWEEN ? AND ? AND r.id BETWEEN ? AND ? LIMIT ?;

-- name: recorded_receipts
SELECT r.id FROM all_receipt_ids AS i CROSS JOIN receipts AS r USING (number) WHERE i.head IN (?);

-- name: insert_link
INSERT OR FAIL INTO links VALUES (?, ?, ?, ?);

-- name: insert_hit
INSERT OR FAIL INTO hits VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: insert_result
INSERT OR FAIL INTO results VALUES (?, ?);

-- name: delete_result
DELETE FROM results WHERE number = (
    SELECT r.number FROM all_receipt_ids AS i CROSS JOIN receipts AS r USING (number) WHERE i.head = ? AND r.id = ?
);

-- name: record_purge
INSERT INTO purged VALUES (?, ?, ?) ON CONFLICT (sha) DO UPDATE SET at = excluded.at, why = excluded.why;

-- name: purged_at
SELECT at FROM purged WHERE sha = ?;

-- name: write_yool_cost
INSERT OR REPLACE INTO yools VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: insert_running
INSERT INTO running (ordinal, step, micros, tokens, yool) VALUES (?, ?, ?, ?, ?);

-- name: reduce_running
UPDATE running SET micros = micros - ?, tokens = tokens - ? WHERE ordinal = ? AND step = ?;

-- name: add_step_cost
INSERT INTO counted VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (ordinal, epoch, counter, step) DO UPDATE
SET micros = micros + excluded.micros, tokens = tokens + excluded.tokens;

-- name: running_step
SELECT micros, tokens, yool FROM running WHERE ordinal = ? AND step = ?;

-- name: any_running
SELECT EXISTS (SELECT 1 FROM running);

-- name: all_running
SELECT tuples.id, running.step, running.micros, running.tokens FROM running JOIN tuples USING (ordinal)
ORDER BY ordinal, step;

-- name: counted_under_claim
SELECT micros, tokens FROM counted WHERE ordinal = ? AND epoch = ? AND counter = ? AND step = ?;

-- name: running_steps
SELECT step, micros, tokens FROM running WHERE ordinal = ?;

-- name: delete_running
DELETE FROM running WHERE ordinal = ? AND step = ?;

-- name: add_lane_counts
INSERT INTO lanes VALUES (?, ?, ?, ?)
ON CONFLICT (lane) DO UPDATE SET waiting = waiting + excluded.waiting, claimed = claimed + excluded.claimed,
    blocked = blocked + excluded.blocked;

-- name: run_number
SELECT number FROM runs WHERE run = ?;

-- name: insert_run
INSERT INTO runs (number, run) VALUES (?, ?);

-- name: add_run_totals
UPDATE runs SET waiting = waiting + ?, blocked = blocked + ?, claimed = claimed + ?, done = done + ?, dead = dead + ?,
    cancelled = cancelled + ?, taken = taken + ?, open = open + ?, again = again + ?, executed = executed + ?, hits = hits + ?,
    micros = micros + ?,
    tokens = tokens + ?
WHERE number = ?;

-- name: tuple
SELECT {columns}
FROM all_tuple_ids AS i CROSS JOIN tuples AS t USING (ordinal) CROSS JOIN bodies AS b USING (ordinal)
    CROSS JOIN runs AS r ON r.number = t.run
WHERE i.head = ? AND t.id = ?;

-- name: tuples
SELECT {columns}
FROM all_tuple_ids AS i CROSS JOIN tuples AS t USING (ordinal) CROSS JOIN bodies AS b USING (ordinal)
    CROSS JOIN runs AS r ON r.number = t.run
WHERE i.head IN (?);

-- name: waiting_needs
-- The needs of a lane's waiting tuples: one seek for each, however many tuples there are.
WITH RECURSIVE present (number) AS (
    SELECT min(needs) FROM lane_runs INDEXED BY open_lane_runs WHERE open = 1 AND lane = ?1
    UNION ALL
    SELECT (
        SELECT min(needs) FROM lane_runs INDEXED BY open_lane_runs
        WHERE open = 1 AND lane = ?1 AND needs > present.number
    )
    FROM present WHERE present.number IS NOT NULL
)
SELECT n.number, n.yools FROM present AS p CROSS JOIN needs AS n USING (number);

-- name: delayed_needs
WITH RECURSIVE present (number) AS (
    SELECT min(needs) FROM tuples INDEXED BY delayed WHERE state = 'waiting' AND due = 0 AND lane = ?1
    UNION ALL
    SELECT (
        SELECT min(needs) FROM tuples INDEXED BY delayed
        WHERE state = 'waiting' AND due = 0 AND lane = ?1 AND needs > present.number
    )
    FROM present WHERE present.number IS NOT NULL
)
SELECT n.number, n.yools FROM present AS p CROSS JOIN needs AS n USING (number);

-- name: waiting_groups
SELECT l.lane, n.yools, r.run, l.authority, g.key, w.tuples, w.oldest
FROM (
    SELECT grp, sum(tuples) AS tuples, min(oldest) AS oldest
    FROM (
        SELECT grp, count(*) AS tuples, min(ordinal) AS oldest FROM tuples INDEXED BY waiting
        WHERE state = 'waiting' AND due = 1 GROUP BY grp
        UNION ALL
        SELECT grp, count(*), min(ordinal) FROM tuples INDEXED BY delayed
        WHERE state = 'waiting' AND due = 0 AND ready_at <= ? GROUP BY grp
    )
    GROUP BY grp
) AS w CROSS JOIN groups AS g ON g.number = w.grp CROSS JOIN siblings AS s ON s.number = g.siblings
    CROSS JOIN lane_runs AS l ON l.number = s.lane_run CROSS JOIN needs AS n ON n.number = l.needs
    CROSS JOIN runs AS r ON r.number = l.run;

-- name: delayed_counts
SELECT lane, count(*), min(ready_at) FROM tuples INDEXED BY delayed
WHERE state = 'waiting' AND due = 0 AND ready_at > ?
GROUP BY lane ORDER BY lane;

-- name: late
-- Whether tuples of a lane are delayed, when the first claim of an epoch ends, and whether there are earlier ones.
SELECT EXISTS (
        SELECT 1 FROM tuples INDEXED BY delayed WHERE state = 'waiting' AND due = 0 AND lane = ?1
    ), (
        SELECT min(until) FROM tuples INDEXED BY claimed WHERE state = 'claimed' AND lane = ?1 AND epoch = ?2
    ), EXISTS (
        SELECT 1 FROM tuples INDEXED BY claimed WHERE state = 'claimed' AND lane = ?1 AND epoch < ?2
    );

-- name: waiting
SELECT {columns}
FROM tuples AS t INDEXED BY waiting CROSS JOIN bodies AS b USING (ordinal) CROSS JOIN runs AS r ON r.number = t.run
WHERE t.state = 'waiting' AND t.due = 1 AND t.grp = ?
ORDER BY t.ordinal;

-- name: lost
SELECT t.ordinal, t.rank, t.grp, l.run, l.served, s.parent, s.served
FROM (
    SELECT ordinal, rank, grp FROM tuples INDEXED BY claimed
    WHERE state = 'claimed' AND lane = ? AND epoch = ? AND until <= ?
    UNION ALL
    SELECT ordinal, rank, grp FROM tuples INDEXED BY claimed WHERE state = 'claimed' AND lane = ? AND epoch < ?
) AS t CROSS JOIN groups AS g ON g.number = t.grp CROSS JOIN siblings AS s ON s.number = g.siblings
    CROSS JOIN lane_runs AS l ON l.number = s.lane_run
ORDER BY t.ordinal;

-- name: tuple_by_ordinal
SELECT {columns}
FROM tuples AS t CROSS JOIN bodies AS b USING (ordinal) CROSS JOIN runs AS r ON r.number = t.run
WHERE t.ordinal = ?;

-- name: posted_live
SELECT {columns}
FROM posted AS p CROSS JOIN tuples AS t ON t.ordinal = p.ordinal CROSS JOIN bodies AS b ON b.ordinal = p.ordinal
    CROSS JOIN runs AS r ON r.number = t.run
WHERE p.path = ? AND p.value = ? AND p.live = 1
ORDER BY p.rank, p.ordinal;

-- name: posted_all
SELECT {columns}
FROM posted AS p CROSS JOIN tuples AS t ON t.ordinal = p.ordinal CROSS JOIN bodies AS b ON b.ordinal = p.ordinal
    CROSS JOIN runs AS r ON r.number = t.run
WHERE p.path = ? AND p.value = ? AND p.ordinal > ?
ORDER BY p.ordinal;

-- name: in_lane
SELECT {columns}
FROM tuples AS t INDEXED BY by_lane CROSS JOIN bodies AS b USING (ordinal) CROSS JOIN runs AS r ON r.number = t.run
WHERE t.lane = ? AND t.ordinal > ? AND t.state <> 'taken'
ORDER BY t.ordinal;

-- name: last_in_lane
SELECT {columns}
FROM tuples AS t INDEXED BY by_lane CROSS JOIN bodies AS b USING (ordinal) CROSS JOIN runs AS r ON r.number = t.run
WHERE t.lane = ?
ORDER BY t.ordinal DESC LIMIT 1;

-- name: unfinished
SELECT {columns}
FROM tuples AS t CROSS JOIN bodies AS b USING (ordinal) CROSS JOIN runs AS r ON r.number = t.run
WHERE t.ordinal > ? AND t.state NOT IN ('done', 'dead', 'cancelled', 'taken')
ORDER BY t.ordinal LIMIT ?;

-- name: claimed
SELECT {columns}
FROM tuples AS t INDEXED BY claimed CROSS JOIN bodies AS b USING (ordinal) CROSS JOIN runs AS r ON r.number = t.run
WHERE t.state = 'claimed' AND (?1 IS NULL OR r.run = ?1)
ORDER BY t.ordinal LIMIT ?2;

-- name: dead
SELECT {columns}
FROM tuples AS t INDEXED BY dead CROSS JOIN bodies AS b USING (ordinal) CROSS JOIN runs AS r ON r.number = t.run
WHERE t.state = 'dead' AND t.ordinal > ?
ORDER BY t.ordinal;

-- name: ended
-- The last N of all are among the last N of each of the N runs in which a tuple ended last.
WITH latest AS MATERIALIZED (
    SELECT r.number, (
        SELECT max(t.ended) FROM tuples AS t INDEXED BY ended
        WHERE t.run = r.number AND t.ended > 0 AND (t.state <> 'dead' OR t.again IS NOT NULL)
    ) AS last
    FROM runs AS r
    WHERE r.run <> ?2
    ORDER BY last DESC LIMIT ?1
), found AS MATERIALIZED (
    SELECT e.ordinal FROM latest AS l CROSS JOIN tuples AS e ON e.ordinal IN (
        SELECT t.ordinal FROM tuples AS t INDEXED BY ended
        WHERE t.run = l.number AND t.ended > 0 AND (t.state <> 'dead' OR t.again IS NOT NULL)
        ORDER BY t.ended DESC LIMIT ?1
    )
    ORDER BY e.ended DESC LIMIT ?1
)
SELECT {columns}
FROM found AS f CROSS JOIN tuples AS t USING (ordinal) CROSS JOIN bodies AS b USING (ordinal)
    CROSS JOIN runs AS r ON r.number = t.run
ORDER BY t.ended DESC;

-- name: ended_in
SELECT {columns}
FROM tuples AS t INDEXED BY ended CROSS JOIN bodies AS b USING (ordinal) CROSS JOIN runs AS r ON r.number = t.run
WHERE t.run = (SELECT number FROM runs WHERE run = ?) AND t.ended > 0 AND (t.state <> 'dead' OR t.again IS NOT NULL)
ORDER BY t.ended DESC LIMIT ?;

-- name: dead_letters
SELECT {columns}
FROM tuples AS t INDEXED BY given_up CROSS JOIN bodies AS b USING (ordinal) CROSS JOIN runs AS r ON r.number = t.run
WHERE t.state = 'dead' AND t.ended < ?1 AND (t.again IS NULL OR ?2) AND (?3 IS NULL OR r.run = ?3)
    AND (?4 IS NULL OR t.lane = ?4)
ORDER BY t.ended DESC LIMIT ?5;

-- name: everything
SELECT {columns}
FROM tuples AS t CROSS JOIN bodies AS b USING (ordinal) CROSS JOIN runs AS r ON r.number = t.run
WHERE t.ordinal > ? AND t.state <> 'taken'
ORDER BY t.ordinal;

-- name: insert_idempotent_put
INSERT OR FAIL INTO asked VALUES (?, ?, ?, ?);

-- name: idempotent_put
SELECT id, request, accepted FROM asked WHERE key = ?;

-- name: waiting_count
SELECT waiting + blocked FROM lanes WHERE lane = ?;

-- name: lane_counts
SELECT lane, waiting, claimed, blocked FROM lanes WHERE waiting <> 0 OR claimed <> 0 OR blocked <> 0;

-- name: next_delayed
SELECT min(ready_at) FROM tuples INDEXED BY delayed
WHERE state = 'waiting' AND due = 0 AND lane = ? AND needs = ? AND ready_at > ?;

-- name: next_lease_end
SELECT min(until) FROM tuples INDEXED BY claimed WHERE state = 'claimed' AND lane = ? AND until > ?;

-- name: not_due_yet
SELECT {columns}
FROM tuples AS t INDEXED BY delayed CROSS JOIN bodies AS b USING (ordinal) CROSS JOIN runs AS r ON r.number = t.run
WHERE t.state = 'waiting' AND t.due = 0 AND t.lane = ? AND t.needs = ? AND t.ready_at > ?
ORDER BY t.ready_at;

-- name: claimed_in_lane
SELECT {columns}
FROM tuples AS t INDEXED BY claimed CROSS JOIN bodies AS b USING (ordinal) CROSS JOIN runs AS r ON r.number = t.run
WHERE t.state = 'claimed' AND t.lane = ? AND t.until > ?
ORDER BY t.until;

-- name: finished
SELECT step, receipt FROM links
WHERE ordinal = (
    SELECT t.ordinal FROM all_tuple_ids AS i CROSS JOIN tuples AS t USING (ordinal) WHERE i.head = ? AND t.id = ?
) AND step IS NOT NULL
ORDER BY number;

-- name: receipts_of
SELECT receipt FROM links WHERE ordinal = (
    SELECT t.ordinal FROM all_tuple_ids AS i CROSS JOIN tuples AS t USING (ordinal) WHERE i.head = ? AND t.id = ?
) ORDER BY number;

-- name: receipt
SELECT r.body FROM all_receipt_ids AS i CROSS JOIN receipts AS r USING (number) WHERE i.head = ? AND r.id = ?;

-- name: receipts
SELECT number, body FROM receipts WHERE number > ? ORDER BY number LIMIT ?;

-- name: receipts_in
SELECT number, body FROM receipts
WHERE run = (SELECT number FROM runs WHERE run = ?) AND number > ?
ORDER BY number LIMIT ?;

-- name: newest_receipts
SELECT number, body FROM receipts WHERE number < ? ORDER BY number DESC LIMIT ?;

-- name: newest_receipts_in
SELECT number, body FROM receipts
WHERE run = (SELECT number FROM runs WHERE run = ?) AND number < ?
ORDER BY number DESC LIMIT ?;

-- name: newest_hits
SELECT h.receipt_number, h.number, t.id, h.step, h.at, h.receipt FROM hits AS h CROSS JOIN tuples AS t USING (ordinal)
WHERE (h.receipt_number, h.number) < (?, ?)
ORDER BY h.receipt_number DESC, h.number DESC LIMIT ?;

-- name: newest_hits_in
SELECT h.receipt_number, h.number, t.id, h.step, h.at, h.receipt
FROM hits AS h INDEXED BY hits_by_run CROSS JOIN tuples AS t USING (ordinal)
WHERE h.run = (SELECT number FROM runs WHERE run = ?) AND (h.receipt_number, h.number) < (?, ?)
ORDER BY h.receipt_number DESC, h.number DESC LIMIT ?;

-- name: cached_receipt
SELECT body FROM receipts WHERE number = (SELECT max(number) FROM results WHERE key = ?);

-- name: yool_cost
SELECT runs, micros, tokens, most_micros, most_tokens, kept_micros, kept_tokens FROM yools WHERE name = ?;

-- name: step_cost
SELECT micros, tokens FROM counted
WHERE ordinal = (
    SELECT t.ordinal FROM all_tuple_ids AS i CROSS JOIN tuples AS t USING (ordinal) WHERE i.head = ? AND t.id = ?
) AND epoch = ? AND counter = ? AND step = ?;

-- name: run_totals
SELECT * FROM runs ORDER BY number;

-- name: lane_run
SELECT number FROM lane_runs WHERE lane = ? AND run = ? AND needs = ? AND rank = ? AND authority = ?;

-- name: insert_lane_run
INSERT INTO lane_runs (lane, run, needs, rank, authority, served)
VALUES (?1, ?2, ?3, ?4, ?5, (SELECT coalesce(max(served), 0) FROM lane_runs WHERE lane = ?1 AND run = ?2))
RETURNING number;

-- name: sibling
SELECT number FROM siblings WHERE lane_run = ? AND parent = ?;

-- name: insert_sibling
INSERT INTO siblings (lane_run, parent, served)
VALUES (?1, ?2, (
    SELECT coalesce(max(s.served), 0) FROM lane_runs AS l CROSS JOIN siblings AS s ON s.lane_run = l.number
    WHERE l.lane = ?3 AND l.run = ?4 AND s.parent = ?2
))
RETURNING number;

-- name: group
SELECT number FROM groups WHERE siblings = ? AND key = ?;

-- name: insert_group
INSERT INTO groups (siblings, key, head) VALUES (?, ?, ?) ON CONFLICT DO NOTHING RETURNING number;

-- name: group_fields
SELECT l.lane, l.run, l.authority, s.parent, g.key, r.run, l.number, s.number
FROM groups AS g CROSS JOIN siblings AS s ON s.number = g.siblings CROSS JOIN lane_runs AS l ON l.number = s.lane_run
    CROSS JOIN runs AS r ON r.number = l.run
WHERE g.number = ?;

-- name: wait_of
SELECT ready_at, grp FROM tuples WHERE ordinal = ?;

-- name: group_of
SELECT grp FROM tuples WHERE ordinal = ?;

-- name: fill_group
UPDATE groups SET head = min(head, ?1), state = CASE state WHEN 0 THEN 1 ELSE state END WHERE number = ?2;

-- name: open_siblings
UPDATE siblings SET open = 1 WHERE number = ? AND open = 0;

-- name: open_lane_run
UPDATE lane_runs SET open = 1 WHERE number = (SELECT lane_run FROM siblings WHERE number = ?) AND open = 0;

-- name: serve_run
UPDATE lane_runs SET served = ? WHERE lane = ? AND run = ?;

-- name: serve_parent
UPDATE siblings SET served = ? WHERE parent = ? AND lane_run IN (SELECT number FROM lane_runs WHERE lane = ? AND run = ?);

-- name: runs_in_turn
SELECT l.number, l.rank, l.served, l.run, l.authority, r.run
FROM lane_runs AS l INDEXED BY open_lane_runs CROSS JOIN runs AS r ON r.number = l.run
WHERE l.open = 1 AND l.lane = ? AND l.needs = ?
ORDER BY l.rank DESC, l.served, l.run;

-- name: siblings_in_turn
SELECT number, served, parent FROM siblings INDEXED BY open_siblings WHERE open = 1 AND lane_run = ?
ORDER BY served, parent;

-- name: groups_in_turn
SELECT number, head, key FROM groups INDEXED BY open_groups WHERE state = 1 AND siblings = ? ORDER BY head;

-- name: close_group
UPDATE groups SET state = ? WHERE number = ?;

-- name: advance_group
UPDATE groups SET head = ? WHERE number = ? AND state = 1;

-- name: close_siblings
UPDATE siblings SET open = 0
WHERE number = ?1 AND NOT EXISTS (SELECT 1 FROM groups INDEXED BY open_groups WHERE state = 1 AND siblings = ?1);

-- name: close_lane_run
UPDATE lane_runs SET open = 0
WHERE number = ?1 AND NOT EXISTS (SELECT 1 FROM siblings INDEXED BY open_siblings WHERE open = 1 AND lane_run = ?1);

-- name: hold_group
INSERT OR IGNORE INTO held VALUES (?, ?);

-- name: close_pool
INSERT INTO closed VALUES (?, ?) ON CONFLICT (pool) DO UPDATE SET until = excluded.until;

-- name: due_pools
SELECT pool FROM closed WHERE until <= ?;

-- name: due_pool_exists
SELECT EXISTS (SELECT 1 FROM closed WHERE until <= ?);

-- name: any_held
SELECT EXISTS (SELECT 1 FROM held);

-- name: next_opening
SELECT c.until FROM closed AS c INDEXED BY closed_until
WHERE c.until > ?1 AND (?2 IS NULL OR EXISTS (
    SELECT 1 FROM held AS h CROSS JOIN groups AS g ON g.number = h.grp CROSS JOIN siblings AS s ON s.number = g.siblings
        CROSS JOIN lane_runs AS l ON l.number = s.lane_run
    WHERE h.pool = c.pool AND l.lane = ?2
))
ORDER BY c.until LIMIT 1;

-- name: open_held_lane_runs
-- What the pools from the first to the second name hold.
UPDATE lane_runs SET open = 1 WHERE open = 0 AND number IN (
    SELECT s.lane_run FROM held AS h CROSS JOIN groups AS g ON g.number = h.grp
        CROSS JOIN siblings AS s ON s.number = g.siblings
    WHERE h.pool BETWEEN ?1 AND ?2
);

-- name: open_held_siblings
UPDATE siblings SET open = 1 WHERE open = 0 AND number IN (
    SELECT g.siblings FROM held AS h CROSS JOIN groups AS g ON g.number = h.grp WHERE h.pool BETWEEN ?1 AND ?2
);

-- name: open_held_groups
UPDATE groups SET state = 1 WHERE number IN (SELECT grp FROM held WHERE pool BETWEEN ?1 AND ?2);

-- name: forget_held
DELETE FROM held WHERE pool BETWEEN ?1 AND ?2;

-- name: forget_closed
DELETE FROM closed WHERE pool BETWEEN ? AND ? RETURNING 1;

-- name: promote
-- Tuples whose time has come wait like the others from now on.
UPDATE tuples SET due = 1 WHERE ordinal IN (
    SELECT ordinal FROM tuples INDEXED BY delayed
    WHERE state = 'waiting' AND due = 0 AND lane = ? AND needs = ? AND ready_at <= ? ORDER BY ready_at LIMIT ?
) RETURNING ordinal, grp;

-- name: rules
SELECT body FROM rules;

-- name: set_rule
INSERT INTO rules VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET body = excluded.body;

-- name: remove_rule
DELETE FROM rules WHERE name = ?;

-- name: forget_starts
DELETE FROM starts WHERE pool BETWEEN ? AND ?;

-- name: clear_slots
DELETE FROM slots;

-- name: insert_slot
INSERT OR IGNORE INTO slots VALUES (?, ?);

-- name: pools_of_tuple
SELECT pool FROM slots WHERE ordinal = ?;

-- name: delete_slots
DELETE FROM slots WHERE ordinal = ?;

-- name: claimed_groups
SELECT ordinal, grp FROM tuples INDEXED BY claimed WHERE state = 'claimed';

-- name: slot_use
SELECT count(*), min(t.until) FROM slots AS s CROSS JOIN tuples AS t USING (ordinal)
WHERE s.pool = ? AND t.state = 'claimed' AND t.epoch = ? AND t.until > ?;

-- name: insert_start
INSERT INTO starts VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM starts WHERE pool = ?1), ?2);

-- name: trim_starts
DELETE FROM starts WHERE pool = ?1 AND number <= (SELECT max(number) FROM starts WHERE pool = ?1) - ?2;

-- name: starts_within
-- The numbers of a pool's starts follow each other, so nothing is counted.
SELECT coalesce((SELECT max(number) FROM starts WHERE pool = ?1), 0) - coalesce(
    (
        SELECT number FROM starts INDEXED BY starts_by_time WHERE pool = ?1 AND at <= ?2
        ORDER BY at DESC, number DESC LIMIT 1
    ),
    (SELECT min(number) - 1 FROM starts WHERE pool = ?1),
    0
);

-- name: nth_last_start
SELECT at FROM starts WHERE pool = ?1 AND number = (SELECT max(number) FROM starts WHERE pool = ?1) - ?2;

-- name: correct_starts
UPDATE starts SET at = ?1 WHERE at > ?1;

-- name: pools_used
SELECT DISTINCT pool FROM (
    SELECT pool FROM slots WHERE pool BETWEEN ?1 AND ?2 UNION ALL SELECT pool FROM starts WHERE pool BETWEEN ?1 AND ?2
);

-- name: lone
SELECT t.ordinal, t.rank, t.grp, l.run, l.served, s.parent, s.served
FROM tuples AS t CROSS JOIN groups AS g ON g.number = t.grp CROSS JOIN siblings AS s ON s.number = g.siblings
    CROSS JOIN lane_runs AS l ON l.number = s.lane_run
WHERE t.ordinal = ?;

-- name: delayed_lone
-- The first of the tuples whose time has come since the last claim.
SELECT t.ordinal, t.rank, t.grp, l.run, l.served, s.parent, s.served
FROM tuples AS t INDEXED BY delayed CROSS JOIN groups AS g ON g.number = t.grp
    CROSS JOIN siblings AS s ON s.number = g.siblings CROSS JOIN lane_runs AS l ON l.number = s.lane_run
WHERE t.state = 'waiting' AND t.due = 0 AND t.lane = ? AND t.needs = ? AND t.ready_at <= ?
ORDER BY t.ready_at LIMIT ?;

-- name: group_state
SELECT state, head, siblings FROM groups WHERE number = ?;

-- name: any_batch
SELECT EXISTS (SELECT 1 FROM batches);

-- name: insert_batch
INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: batch
SELECT t.id, b.ordinal, r.run, b.lane, b.rank, b.depth, b.branching, b.template, b.retries, b.folded, t.state
FROM all_tuple_ids AS i CROSS JOIN tuples AS t USING (ordinal) CROSS JOIN batches AS b USING (ordinal)
    CROSS JOIN runs AS r ON r.number = t.run
WHERE i.head = ? AND t.id = ?;

-- name: batches
SELECT t.id, b.ordinal, r.run, b.lane, b.rank, b.depth, b.branching, b.template, b.retries, b.folded, t.state
FROM batches AS b CROSS JOIN tuples AS t USING (ordinal) CROSS JOIN runs AS r ON r.number = t.run
WHERE (?1 IS NULL OR r.run = ?1) AND b.ordinal < ?2
ORDER BY b.ordinal DESC LIMIT ?3;

-- name: folded_batches
SELECT t.id, b.ordinal, r.run, b.lane, b.rank, b.depth, b.branching, b.template, b.retries, b.folded, t.state
FROM batches AS b INDEXED BY folded_batches CROSS JOIN tuples AS t USING (ordinal)
    CROSS JOIN runs AS r ON r.number = t.run
WHERE b.folded > 0 AND b.lane = ?
ORDER BY b.rank DESC, b.ordinal LIMIT ?;

-- name: folded_batches_of_all_lanes
SELECT t.id, b.ordinal, r.run, b.lane, b.rank, b.depth, b.branching, b.template, b.retries, b.folded, t.state
FROM batches AS b INDEXED BY folded_batches CROSS JOIN tuples AS t USING (ordinal)
    CROSS JOIN runs AS r ON r.number = t.run
WHERE b.folded > 0
ORDER BY b.rank DESC, b.ordinal LIMIT ?;

-- name: batch_shape
SELECT branching, depth FROM batches WHERE ordinal = ?;

-- name: add_folded
UPDATE batches SET folded = folded + ? WHERE ordinal = ?;

-- name: folded_leaves
SELECT start, stop FROM folded_leaves WHERE batch = ? ORDER BY start LIMIT ?;

-- name: folded_leaves_meeting
-- The ranges that overlap or touch a range: of those that begin before its end, the ones that end behind its start.
SELECT start, stop FROM folded_leaves WHERE batch = ?1 AND start <= ?3 AND stop >= ?2
    AND start >= (SELECT coalesce(max(start), 0) FROM folded_leaves WHERE batch = ?1 AND start <= ?2)
ORDER BY start;

-- name: insert_folded_leaves
INSERT INTO folded_leaves VALUES (?, ?, ?);

-- name: delete_folded_leaves
DELETE FROM folded_leaves WHERE batch = ? AND start = ?;

-- name: add_folded_ends
INSERT INTO folded_ends VALUES (?, ?, ?, ?)
ON CONFLICT (batch, level, state) DO UPDATE SET agents = agents + excluded.agents;

-- name: insert_agent
INSERT INTO agents (ordinal, batch, level, number, children, children_left, idle) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: not_idle
UPDATE agents SET idle = 0 WHERE ordinal = ? AND idle = 1;

-- name: keep_agent
UPDATE agents SET kept = 1 WHERE ordinal = ?;

-- name: keep_agent_with_id
UPDATE agents SET kept = 1 WHERE ordinal IN (
    SELECT t.ordinal FROM all_tuple_ids AS i CROSS JOIN tuples AS t USING (ordinal) WHERE i.head = ? AND t.id = ?
);

-- name: update_agent
UPDATE agents SET children_left = ?, dead = ?, cancelled = ? WHERE ordinal = ?;

-- name: agent_by_ordinal
SELECT a.ordinal, a.batch, a.level, a.number, a.children, a.children_left, a.dead, a.cancelled, a.idle, a.kept
FROM agents AS a WHERE a.ordinal = ?;

-- name: agent_by_place
SELECT a.ordinal, a.batch, a.level, a.number, a.children, a.children_left, a.dead, a.cancelled, a.idle, a.kept
FROM agents AS a WHERE a.batch = ? AND a.level = ? AND a.number = ?;

-- name: agents
SELECT a.ordinal, a.batch, a.level, a.number, a.children, a.children_left, a.dead, a.cancelled, a.idle, a.kept, t.id, b.id
FROM all_tuple_ids AS i CROSS JOIN agents AS a USING (ordinal) CROSS JOIN tuples AS t USING (ordinal)
    CROSS JOIN tuples AS b ON b.ordinal = a.batch
WHERE i.head IN (?);

-- name: agents_at
SELECT a.ordinal, a.batch, a.level, a.number, a.children, a.children_left, a.dead, a.cancelled, a.idle, a.kept, t.id, b.id
FROM agents AS a INDEXED BY agents_by_place CROSS JOIN tuples AS t USING (ordinal)
    CROSS JOIN tuples AS b ON b.ordinal = a.batch
WHERE a.batch = ? AND a.level = ? AND a.number >= ? AND a.number < ?
    AND (? = 0 OR t.state NOT IN ('done', 'dead', 'cancelled', 'taken'))
ORDER BY a.number LIMIT ?;

-- name: kept_agents
SELECT a.ordinal, a.batch, a.level, a.number, a.children, a.children_left, a.dead, a.cancelled, a.idle, a.kept, t.id, b.id
FROM agents AS a INDEXED BY kept_agents CROSS JOIN tuples AS t USING (ordinal)
    CROSS JOIN tuples AS b ON b.ordinal = a.batch
WHERE a.batch = ? AND a.kept = 1 AND a.level > 0
ORDER BY a.level, a.number;

-- name: idle_leaves
SELECT number FROM agents INDEXED BY idle_leaves WHERE batch = ? AND idle = 1 ORDER BY number LIMIT ?;

-- name: level_counts
SELECT a.level, t.state, count(*), sum(t.own_micros), sum(t.own_tokens),
    sum((SELECT count(*) FROM links AS l WHERE l.ordinal = a.ordinal))
FROM agents AS a INDEXED BY agents_by_place CROSS JOIN tuples AS t USING (ordinal)
WHERE a.batch = ?
GROUP BY a.level, t.state;

-- name: folded_ends
SELECT level, state, agents FROM folded_ends WHERE batch = ?;

-- name: delete_agent
DELETE FROM agents WHERE ordinal = ?;

-- name: delete_tuple
DELETE FROM tuples WHERE ordinal = ?;

-- name: delete_body
DELETE FROM bodies WHERE ordinal = ?;

-- name: delete_tuple_id
DELETE FROM tuple_ids WHERE head = ? AND ordinal = ?;

-- name: delete_new_tuple_id
DELETE FROM new_tuple_ids WHERE head = ? AND ordinal = ?;

-- name: tuple_id
SELECT id FROM tuples WHERE ordinal = ?;

-- name: insert_schedule
INSERT INTO schedules (name, run, added_by, look, added, state) VALUES (?, ?, ?, ?, ?, ?);

-- name: update_schedule
UPDATE schedules SET look = ?, state = ? WHERE name = ?;

-- name: delete_schedule
DELETE FROM schedules WHERE name = ?;

-- name: schedule
SELECT added, state FROM schedules WHERE name = ?;

-- name: schedules
SELECT added, state FROM schedules INDEXED BY schedule_looks
WHERE (look, name) > (?1, ?2) AND look <= ?3 AND (?4 IS NULL OR run = ?4) AND (?5 IS NULL OR added_by = ?5)
ORDER BY look, name LIMIT ?6;

-- name: schedule_count
SELECT count(*) FROM schedules;

-- name: schedule_count_of
SELECT count(*) FROM schedules INDEXED BY schedule_authors WHERE added_by = ?;

-- name: next_look
SELECT min(look) FROM schedules INDEXED BY schedule_looks WHERE look < ?;

-- name: yool_names
SELECT name FROM yools;

-- name: served_runs
SELECT number, lane, run, served FROM lane_runs ORDER BY number;

-- name: served_parents
SELECT s.number, l.lane, l.run, s.parent, s.served FROM siblings AS s JOIN lane_runs AS l ON l.number = s.lane_run
ORDER BY s.number;
