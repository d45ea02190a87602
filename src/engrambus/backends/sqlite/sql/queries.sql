-- name: state
SELECT layout, project, position, seq, checksum, at, clock, ordinal, runs, pending, tail, merged, identity FROM applied;

-- name: insert_state
INSERT INTO applied VALUES (1, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0);

-- name: update_state
UPDATE applied SET position = ?, seq = ?, checksum = ?, at = ?, clock = ?, ordinal = ?, runs = ?, pending = ?, tail = ?,
    merged = ?, identity = ?;

-- name: insert_run
INSERT INTO runs (number, run_id, goal, opened_at, session) VALUES (?, ?, ?, ?, ?);

-- name: end_run
UPDATE runs SET ended = 1 WHERE run_id = ?;

-- name: run
SELECT run_id, goal, number, opened_at, ended, session FROM runs WHERE run_id = ?;

-- name: first_run_at
SELECT opened_at FROM runs ORDER BY number LIMIT 1;

-- name: run_of_session
SELECT run_id, goal, number, opened_at, ended, session FROM runs WHERE session = ? ORDER BY number DESC LIMIT 1;

-- name: current_run
SELECT run_id, goal, number, opened_at, ended, session FROM runs WHERE session IS NULL
ORDER BY ended, number DESC LIMIT 1;

-- name: runs
SELECT run_id, goal, number, opened_at, ended, session FROM runs WHERE session IS NULL ORDER BY number DESC LIMIT ?;

-- name: session_runs
SELECT run_id, goal, number, opened_at, ended, session FROM runs WHERE session IS NOT NULL ORDER BY number DESC LIMIT ?;

-- name: insert_agent
INSERT INTO agents (run, name, role, parent, client_id, session_turns, root, added_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: agent_root
SELECT root FROM agents WHERE run = ? AND name = ?;

-- name: agents_below
SELECT count(*) FROM agents WHERE run = ? AND root = ? AND parent IS NOT NULL;

-- name: agents_added_since
SELECT added_at FROM agents WHERE run = ? AND root = ? AND added_at > ? AND parent IS NOT NULL ORDER BY added_at;

-- name: agent
SELECT run, name, role, parent, client_id, session_turns, removed, tokens_revoked FROM agents WHERE run = ? AND name = ?;

-- name: agent_role
SELECT role FROM agents WHERE run = ? AND name = ?;

-- name: agents
SELECT run, name, role, parent, client_id, session_turns, removed, tokens_revoked FROM agents WHERE run = ? AND removed = 0 ORDER BY position;

-- name: agents_named
SELECT run, name, role, parent, client_id, session_turns, removed, tokens_revoked FROM agents WHERE name = ? ORDER BY position;

-- name: newest_agents
SELECT run, name, role, parent, client_id, session_turns, removed, tokens_revoked FROM agents WHERE removed = 0 ORDER BY position DESC LIMIT ?;

-- name: agent_of_client
SELECT run, name, role, parent, client_id, session_turns, removed, tokens_revoked FROM agents WHERE run = ? AND client_id = ?
ORDER BY position LIMIT 1;

-- name: remove_agent
UPDATE agents SET removed = 1 WHERE run = ? AND name = ?;

-- name: drop_expired_tokens
DELETE FROM tokens WHERE run = ? AND agent = ? AND expires_at <= ?;

-- name: insert_token
INSERT INTO tokens (token_id, run, agent, issued_by, first_at, expires_at) VALUES (?, ?, ?, ?, ?, ?);

-- name: revoke_token
UPDATE tokens SET revoked = 1 WHERE token_id = ?;

-- name: revoke_tokens_of
UPDATE tokens SET revoked = 1 WHERE run = ? AND agent = ?;

-- name: revoke_old_tokens_of
UPDATE agents SET tokens_revoked = 1 WHERE run = ? AND name = ?;

-- name: revoke_all_tokens
UPDATE tokens SET revoked = 1;

-- name: revoke_all_old_tokens
UPDATE agents SET tokens_revoked = 1;

-- name: revoke_all_grants
INSERT INTO blocks (block_id, revoked) SELECT block_id, 1 FROM grants WHERE true
ON CONFLICT (block_id) DO UPDATE SET revoked = 1;

-- name: end_all_reservations
DELETE FROM reservations;

-- name: drop_later_puts
DELETE FROM puts WHERE last_at > ?;

-- name: correct_turns
UPDATE turns SET last_at = min(last_at, ?);

-- name: correct_agents
UPDATE agents SET added_at = min(added_at, ?);

-- name: expiring_after
SELECT ordinal, expires_at, body FROM engrams WHERE expires_at > ?;

-- name: is_token_revoked
SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM tokens WHERE token_id = ? AND revoked = 0);

-- name: token
SELECT token_id, tokens.run, agent, issued_by, first_at, expires_at FROM tokens
JOIN agents ON agents.run = tokens.run AND agents.name = tokens.agent JOIN runs ON runs.run_id = tokens.run
WHERE token_id = ? AND expires_at > ? AND revoked = 0 AND removed = 0 AND ended = 0;

-- name: tokens
SELECT token_id, tokens.run, agent, issued_by, first_at, expires_at FROM tokens
JOIN agents ON agents.run = tokens.run AND agents.name = tokens.agent JOIN runs ON runs.run_id = tokens.run
WHERE (CAST(?1 AS TEXT) IS NULL OR tokens.run = ?1) AND (CAST(?2 AS TEXT) IS NULL OR token_id < ?2) AND expires_at > ?3
    AND revoked = 0 AND removed = 0 AND ended = 0
ORDER BY token_id DESC LIMIT ?4;

-- name: tokens_of
SELECT token_id, tokens.run, agent, issued_by, first_at, expires_at FROM tokens
JOIN agents ON agents.run = tokens.run AND agents.name = tokens.agent JOIN runs ON runs.run_id = tokens.run
WHERE tokens.run = ? AND agent = ? AND expires_at > ? AND revoked = 0 AND removed = 0 AND ended = 0
ORDER BY token_id DESC;

-- name: insert_policy
INSERT INTO policies (policy, applied_at, applied_by) VALUES (?, ?, ?);

-- name: policy
SELECT policy FROM policies ORDER BY position DESC LIMIT 1;

-- name: applied_policies
SELECT policy, applied_at, applied_by FROM policies ORDER BY position DESC LIMIT ?;

-- name: insert_engram
INSERT INTO engrams (ordinal, space, id, run, kind, scope, created_at, expires_at, confidence, names, twin,
    more_keys, sequence, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: use_id
INSERT INTO used_ids (id) VALUES (?) ON CONFLICT DO NOTHING;

-- name: is_id_used
SELECT 1 FROM used_ids WHERE id = ?;

-- name: engram_row
SELECT ordinal, more_keys, body FROM engrams WHERE space = ? AND id = ? ORDER BY ordinal DESC LIMIT 1;

-- name: promote_engram
UPDATE engrams SET space = ?, scope = ?, body = ? WHERE ordinal = ?;

-- name: enrich_engram
UPDATE engrams SET confidence = ?, names = ?, twin = ?, more_keys = ?, body = ? WHERE ordinal = ?;

-- name: delete_engram
DELETE FROM engrams WHERE ordinal = ? RETURNING space, kind, more_keys, body;

-- name: keep_past
INSERT INTO past SELECT ordinal, space, id, run, kind, scope, created_at, expires_at, confidence, names, more_keys,
    sequence, body, ?2, ?3
FROM engrams WHERE ordinal = ?1;

-- name: past_rows
SELECT ordinal FROM past WHERE space = ? AND id = ?;

-- name: past_body
SELECT space, more_keys, body FROM past WHERE ordinal = ?;

-- name: delete_past
DELETE FROM past WHERE ordinal = ?;

-- name: find_past
SELECT ordinal, body, space, run, expires_at, more_keys, replaced_at, replaced_by FROM past
WHERE space = ? AND id = ? ORDER BY ordinal DESC LIMIT 1;

-- name: find_expired
SELECT ordinal, body, space, run, expires_at, more_keys FROM engrams
WHERE space = ? AND id = ? AND expires_at <= ? ORDER BY ordinal DESC LIMIT 1;

-- name: replaced_ids_starting
SELECT DISTINCT id FROM past WHERE space = ? AND id >= ? AND id < ? AND replaced_by IS NOT NULL ORDER BY id LIMIT ?;

-- name: replaced_with
SELECT replaced_by, id FROM past WHERE replaced_by = ? ORDER BY id;

-- name: last_ordinal_at
SELECT ordinal FROM engrams WHERE created_at <= ? ORDER BY ordinal DESC LIMIT 1;

-- name: last_past_ordinal_at
SELECT ordinal FROM past WHERE created_at <= ? ORDER BY ordinal DESC LIMIT 1;

-- name: ended_since
SELECT ordinal FROM past WHERE created_at <= ?1 AND expires_at > ?1 AND (replaced_at IS NULL OR replaced_at > ?1);

-- name: sequence_rows
SELECT ordinal, sequence FROM engrams
WHERE ordinal BETWEEN ? AND ? AND space = ? AND sequence != 0 AND expires_at > ?;

-- name: past_sequence_rows
SELECT ordinal, sequence FROM past WHERE ordinal BETWEEN ? AND ? AND space = ? AND sequence != 0;

-- name: traits_ever
SELECT ordinal, id, scope, created_at, confidence, names, sequence FROM engrams WHERE ordinal = ?1
UNION ALL
SELECT ordinal, id, scope, created_at, confidence, names, sequence FROM past WHERE ordinal = ?1;

-- name: body_ever
SELECT body FROM engrams WHERE ordinal = ?1 UNION ALL SELECT body FROM past WHERE ordinal = ?1;

-- name: count_live
INSERT INTO live (space, kind, engrams) VALUES (?, ?, ?)
ON CONFLICT (space, kind) DO UPDATE SET engrams = live.engrams + excluded.engrams;

-- name: live_counts
SELECT space, kind, engrams FROM live WHERE engrams > 0;

-- name: live_counts_in
SELECT space, kind, engrams FROM live WHERE space = ? AND engrams > 0;

-- name: expired_counts
SELECT space, kind, count(*) FROM engrams WHERE expires_at <= ? GROUP BY space, kind;

-- name: insert_posting
INSERT INTO postings (rowid, tokens) VALUES (?, ?);

-- name: delete_posting
DELETE FROM postings WHERE rowid = ?;

-- name: is_in_tail
SELECT 1 FROM postings_docsize WHERE id = ?;

-- name: delete_tail
INSERT INTO postings (postings) VALUES ('delete-all');

-- name: tail_terms
SELECT term, doc FROM posting_terms;

-- name: posting_block
SELECT offsets FROM posting_blocks WHERE token = ? AND block = ?;

-- name: posting_blocks
SELECT block, offsets FROM posting_blocks WHERE token = ? AND block <= ? ORDER BY block DESC;

-- name: all_posting_blocks
SELECT token, block, offsets FROM posting_blocks;

-- name: append_to_block
INSERT INTO posting_blocks (token, block, offsets) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET offsets = CAST(offsets || excluded.offsets AS BLOB);

-- name: set_posting_block
INSERT INTO posting_blocks (token, block, offsets) VALUES (?, ?, ?)
ON CONFLICT (token, block) DO UPDATE SET offsets = excluded.offsets;

-- name: delete_posting_block
DELETE FROM posting_blocks WHERE token = ? AND block = ?;

-- name: add_pending
INSERT INTO pending (ordinal, tokens) VALUES (?, ?);

-- name: delete_pending
DELETE FROM pending WHERE ordinal = ?;

-- name: pending
SELECT ordinal, tokens FROM pending ORDER BY ordinal;

-- name: delete_all_pending
DELETE FROM pending;

-- name: expired
SELECT ordinal FROM engrams WHERE expires_at <= ? ORDER BY expires_at LIMIT ?;

-- name: posted
SELECT rowid FROM postings WHERE postings MATCH ? ORDER BY rowid LIMIT ?;

-- name: posted_before
SELECT rowid FROM postings WHERE postings MATCH ? AND rowid > ? ORDER BY rowid LIMIT ?;

-- name: traits
SELECT ordinal, id, scope, created_at, confidence, names, sequence FROM engrams WHERE ordinal = ?;

-- name: body
SELECT body FROM engrams WHERE ordinal = ?;

-- name: find_engram
SELECT ordinal, body, space, run, expires_at, more_keys FROM engrams WHERE space = ? AND id = ? AND expires_at > ?;

-- name: ids_starting
SELECT DISTINCT id FROM engrams WHERE space = ? AND id >= ? AND id < ? AND expires_at > ? ORDER BY id LIMIT ?;

-- name: outbox
SELECT ordinal, body, space, run, expires_at, more_keys FROM engrams WHERE space = 'o' ORDER BY ordinal;

-- name: record_answer
INSERT INTO remembered (caller, key, at, request, answer) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (caller, key) DO UPDATE SET at = excluded.at, request = excluded.request, answer = excluded.answer;

-- name: recorded_answer
SELECT request, answer FROM remembered WHERE caller = ? AND key = ? AND at > ?;

-- name: count_agents
SELECT count(*) FROM agents;

-- name: turn
SELECT number, last_at, repo, artifact, sam, tokens, run_tokens, put_tokens, spoken_tokens
FROM turns WHERE run = ? AND agent = ?;

-- name: team_tokens
SELECT coalesce(sum(run_tokens - spoken_tokens), 0) FROM turns WHERE run = ? AND agent != ?;

-- name: set_turn
INSERT INTO turns (run, agent, number, last_at, repo, artifact, sam, tokens, run_tokens, put_tokens,
    spoken_tokens)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run, agent) DO UPDATE SET number = excluded.number, last_at = excluded.last_at, repo = excluded.repo,
    artifact = excluded.artifact, sam = excluded.sam, tokens = excluded.tokens, run_tokens = excluded.run_tokens,
    put_tokens = excluded.put_tokens, spoken_tokens = excluded.spoken_tokens;

-- name: record_read
INSERT INTO reads (content, run, agent, first, last, to_end, unit) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: was_read
SELECT 1 FROM reads WHERE content = ? AND run = ? LIMIT 1;

-- name: reads_of
SELECT run, agent, content, first, last, to_end, unit FROM reads WHERE content = ? AND run = ?;

-- name: reads_of_admin
SELECT run, agent, content, first, last, to_end, unit FROM reads WHERE content = ? AND agent = 'admin';

-- name: set_expiry
UPDATE engrams SET expires_at = ? WHERE ordinal = ?;

-- name: insert_vote
INSERT INTO votes (ordinal, root) VALUES (?, ?) ON CONFLICT DO NOTHING;

-- name: insert_recalled
INSERT INTO recalled (run, agent, engram, stale) VALUES (?, ?, ?, ?)
ON CONFLICT (run, agent, engram) DO UPDATE SET stale = excluded.stale;

-- name: recalled
SELECT engram, stale FROM recalled WHERE run = ? AND agent = ? ORDER BY position DESC;

-- name: delete_recalled
DELETE FROM recalled WHERE run = ? AND agent = ?;

-- name: insert_recalled_task
INSERT INTO recalled_tasks (run, agent, task, engrams) VALUES (?, ?, ?, ?);

-- name: recalled_task
SELECT engrams FROM recalled_tasks WHERE run = ? AND agent = ? AND task = ? ORDER BY position LIMIT 1;

-- name: delete_recalled_task
DELETE FROM recalled_tasks WHERE position =
    (SELECT min(position) FROM recalled_tasks WHERE run = ? AND agent = ? AND task = ?);

-- name: insert_use
INSERT INTO uses (engram, kind, item, run, agent, at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: uses
SELECT kind, item, run, agent, at FROM uses WHERE engram = ? ORDER BY position DESC LIMIT ?;

-- name: used_in
SELECT engram FROM uses WHERE kind = ? AND item = ? ORDER BY position;

-- name: delete_votes
DELETE FROM votes WHERE ordinal = ?;

-- name: insert_adoption
INSERT INTO adoptions (ordinal, id, body) VALUES (?, ?, ?);

-- name: adoption_row
SELECT body FROM adoptions WHERE ordinal = ?;

-- name: set_adoption
UPDATE adoptions SET body = ? WHERE ordinal = ?;

-- name: delete_adoption
DELETE FROM adoptions WHERE ordinal = ?;

-- name: insert_capture
INSERT INTO captures (ordinal, id, body) VALUES (?, ?, ?);

-- name: capture_row
SELECT body FROM captures WHERE ordinal = ?;

-- name: set_capture
UPDATE captures SET body = ? WHERE ordinal = ?;

-- name: delete_capture
DELETE FROM captures WHERE ordinal = ?;

-- name: captures
SELECT c.id, c.body FROM captures c JOIN engrams USING (ordinal) WHERE c.id = ? AND expires_at > ?;

-- name: insert_learned
INSERT INTO learned (ordinal, id, body) VALUES (?, ?, ?);

-- name: delete_learned
DELETE FROM learned WHERE ordinal = ?;

-- name: renew_learned
UPDATE engrams SET expires_at = ? WHERE ordinal IN (SELECT ordinal FROM learned WHERE id = ?);

-- name: set_learned_commit
INSERT INTO learned_from (one, commit_id) VALUES (1, ?)
ON CONFLICT (one) DO UPDATE SET commit_id = excluded.commit_id;

-- name: refuse_learned
INSERT INTO unwanted (key) SELECT json_extract(body, '$.key') FROM learned WHERE ordinal = ?
ON CONFLICT DO NOTHING;

-- name: unwanted_keys
SELECT key FROM unwanted;

-- name: learned_commit
SELECT commit_id FROM learned_from;

-- name: learned
SELECT l.id, l.body FROM learned l JOIN engrams USING (ordinal) WHERE l.id = ? AND expires_at > ?;

-- name: learned_ordinals
-- CROSS JOIN: every query asks, and few engrams are learned, so these are read first.
SELECT e.ordinal FROM learned CROSS JOIN engrams e WHERE e.ordinal = learned.ordinal AND e.space = ? AND expires_at > ?;

-- name: learned_engrams
SELECT ordinal, e.id, space, expires_at, l.body FROM learned l JOIN engrams e USING (ordinal) WHERE expires_at > ?
ORDER BY ordinal;

-- name: adoptions
SELECT a.id, a.body FROM adoptions a WHERE a.id = ?1 AND (
    EXISTS (SELECT 1 FROM engrams e WHERE e.ordinal = a.ordinal AND expires_at > ?2)
    OR EXISTS (SELECT 1 FROM past WHERE past.ordinal = a.ordinal AND replaced_by IS NOT NULL));

-- name: pin
INSERT INTO pins (ordinal) VALUES (?) ON CONFLICT DO NOTHING;

-- name: unpin
DELETE FROM pins WHERE ordinal = ?;

-- name: pinned_engrams
SELECT engrams.ordinal, space FROM pins CROSS JOIN engrams WHERE engrams.ordinal = pins.ordinal AND expires_at > ? ORDER BY position DESC;

-- name: count_votes
SELECT count(*) FROM votes WHERE ordinal = ? AND root != ?;

-- name: count_puts
INSERT INTO puts (root, second, author, engrams, last_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (root, second, author) DO UPDATE SET engrams = puts.engrams + excluded.engrams, last_at = excluded.last_at;

-- name: drop_old_puts
DELETE FROM puts WHERE root = ? AND second < ?;

-- name: recent_puts
SELECT last_at, author, engrams FROM puts WHERE root = ? AND second >= ? AND last_at > ? ORDER BY last_at, author;

-- name: insert_brief
INSERT INTO briefs (run, role, version, agent, at, lines) VALUES (?, ?, ?, ?, ?, ?);

-- name: last_brief
SELECT version, at, lines, agent FROM briefs WHERE run = ? AND role = ? ORDER BY version DESC LIMIT 1;

-- name: briefs
SELECT version, at, lines, agent FROM briefs WHERE run = ? AND role = ? AND agent = ? ORDER BY version DESC LIMIT ?;

-- name: brief
SELECT version, at, lines, agent FROM briefs WHERE run = ? AND role = ? AND version = ?;

-- name: use_path
INSERT INTO agent_paths (run, agent, path, last_at) VALUES (?, ?, ?, ?)
ON CONFLICT (run, agent, path) DO UPDATE SET last_at = excluded.last_at;

-- name: agent_paths
SELECT path FROM agent_paths WHERE run = ? AND agent = ? ORDER BY last_at DESC, path LIMIT ?;

-- name: insert_mail
INSERT INTO mail (run, recipient, kind, item, sender, at, text, engrams, requests, grants)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: mail
SELECT position, run, kind, item, sender, at, text, engrams, requests, grants FROM mail
WHERE run = ? AND recipient = ? AND position > ? AND (kind <> 'answer' OR ? <> 0) ORDER BY position LIMIT ?;

-- name: mail_of_people
SELECT position, run, kind, item, sender, at, text, engrams, requests, grants FROM mail
WHERE recipient = 'admin' AND position > ? AND (kind <> 'answer' OR ? <> 0) ORDER BY position LIMIT ?;

-- name: mail_before
SELECT position, run, kind, item, sender, at, text, engrams, requests, grants FROM mail
WHERE run = ? AND recipient = ? AND (position <= ? OR kind = 'answer') ORDER BY position DESC LIMIT ?;

-- name: mail_before_of_people
SELECT position, run, kind, item, sender, at, text, engrams, requests, grants FROM mail
WHERE recipient = 'admin' AND (position <= ? OR kind = 'answer') ORDER BY position DESC LIMIT ?;

-- name: mail_items
SELECT position, run, kind, item, sender, at, text, engrams, requests, grants FROM mail
WHERE run = ? AND recipient = ? AND substr(item, 1, length(?)) = ? ORDER BY position LIMIT ?;

-- name: mail_items_of_people
SELECT position, run, kind, item, sender, at, text, engrams, requests, grants FROM mail
WHERE recipient = 'admin' AND substr(item, 1, length(?)) = ? ORDER BY position LIMIT ?;

-- name: count_mail
SELECT count(*), max(position) FROM mail WHERE run = ? AND recipient = ? AND position > ? AND kind <> 'answer';

-- name: count_mail_of_people
SELECT count(*), max(position) FROM mail WHERE recipient = 'admin' AND position > ? AND kind <> 'answer';

-- name: set_listed
INSERT INTO listed (run, agent, position) VALUES (?, ?, ?)
ON CONFLICT (run, agent) DO UPDATE SET position = excluded.position;

-- name: listed_position
SELECT position FROM listed WHERE run = ? AND agent = ?;

-- name: hand_over_mail
INSERT INTO mail_handed_over (run, agent, position) VALUES (?, ?, ?)
ON CONFLICT (run, agent) DO UPDATE SET position = CASE
    WHEN excluded.position > mail_handed_over.position THEN excluded.position ELSE mail_handed_over.position END;

-- name: handed_over
SELECT position FROM mail_handed_over WHERE run = ? AND agent = ?;

-- name: insert_pack
INSERT INTO packs (run, sender, at, pack) VALUES (?, ?, ?, ?);

-- name: packs
SELECT sender, at, pack FROM packs WHERE run = ? ORDER BY position DESC LIMIT ?;

-- name: insert_request
INSERT INTO requests (request_id, run, asked) VALUES (?, ?, ?);

-- name: answer_request
UPDATE requests SET answered = 1, grant_id = ? WHERE request_id = ?;

-- name: request
SELECT asked, answered, grant_id FROM requests WHERE request_id = ? AND (CAST(? AS TEXT) IS NULL OR run = ?);

-- name: open_requests
SELECT asked, answered, grant_id FROM requests WHERE (CAST(? AS TEXT) IS NULL OR run = ?) AND answered = 0 ORDER BY rowid;

-- name: drop_expired_reservations
DELETE FROM reservations WHERE expires_at <= ?;

-- name: insert_reservation
INSERT INTO reservations (reservation_id, run, agent, expires_at, lease) VALUES (?, ?, ?, ?, ?);

-- name: reservation
SELECT lease FROM reservations WHERE reservation_id = ?;

-- name: change_reservation
UPDATE reservations SET expires_at = ?, lease = ? WHERE reservation_id = ?;

-- name: release_reservation
DELETE FROM reservations WHERE reservation_id = ?;

-- name: end_reservations_of_run
DELETE FROM reservations WHERE run = ?;

-- name: end_reservations_of
DELETE FROM reservations WHERE run = ? AND agent = ?;

-- name: reservations
SELECT lease FROM reservations WHERE expires_at > ? ORDER BY rowid;

-- name: insert_grant
INSERT INTO grants (grant_id, run, parent, child, block_id, narrowed_from, cap_tokens, uses, expires_at, issued)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: grant
SELECT issued FROM grants WHERE run = ? AND grant_id = ?;

-- name: grants_for
SELECT issued FROM grants WHERE run = ? AND child = ? ORDER BY rowid;

-- name: grants_of
SELECT issued FROM grants
WHERE run = ?1 AND (CAST(?2 AS TEXT) IS NULL OR child = ?2 OR parent = ?2)
    AND (CAST(?3 AS TEXT) IS NULL OR rowid < (SELECT rowid FROM grants WHERE grant_id = ?3))
ORDER BY rowid DESC LIMIT ?4;

-- name: grants_left
-- A grant that was passed on has no more left than the grants before it.
WITH RECURSIVE chain (grant_id, child, wider, tokens, uses, revoked) AS (
    SELECT grant_id, child, narrowed_from, cap_tokens - coalesce(blocks.tokens, 0),
        grants.uses - coalesce(blocks.uses, 0), coalesce(blocks.revoked, 0)
    FROM grants LEFT JOIN blocks USING (block_id)
    WHERE run = ? AND expires_at > ?
    UNION ALL
    SELECT chain.grant_id, chain.child, narrowed_from, cap_tokens - coalesce(blocks.tokens, 0),
        grants.uses - coalesce(blocks.uses, 0), coalesce(blocks.revoked, 0)
    FROM chain JOIN grants ON grants.grant_id = chain.wider LEFT JOIN blocks USING (block_id)
)
SELECT child, count(*), sum(tokens)
FROM (
    SELECT child, min(tokens) AS tokens FROM chain GROUP BY grant_id, child
    HAVING min(tokens) > 0 AND min(uses) > 0 AND max(revoked) = 0
)
GROUP BY child;

-- name: spend_block
INSERT INTO blocks (block_id, tokens, uses) VALUES (?, ?, 1)
ON CONFLICT (block_id) DO UPDATE SET tokens = blocks.tokens + excluded.tokens, uses = blocks.uses + 1;

-- name: revoke_block
INSERT INTO blocks (block_id, revoked) VALUES (?, 1) ON CONFLICT (block_id) DO UPDATE SET revoked = 1;

-- name: block
SELECT tokens, uses, revoked FROM blocks WHERE block_id = ?;

-- name: set_budgets
INSERT INTO given_budgets (run, agent, budgets) VALUES (?, ?, ?)
ON CONFLICT (run, agent) DO UPDATE SET budgets = excluded.budgets;

-- name: budgets
SELECT budgets FROM given_budgets WHERE run = ? AND agent = ?;

-- name: record_rejection
INSERT INTO rejections (run, agent, kind, rejection, work) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (run, agent, kind, rejection) DO UPDATE SET work = excluded.work;

-- name: clear_rejection
DELETE FROM rejections WHERE run = ? AND agent = ? AND kind = ? AND rejection = ?;

-- name: open_rejections
SELECT rejection, work FROM rejections WHERE run = ? AND agent = ? AND kind = ? ORDER BY rejection DESC LIMIT ?;

-- name: twins
SELECT ordinal FROM engrams WHERE space = ? AND twin = ? AND expires_at > ? ORDER BY ordinal DESC LIMIT ?;

-- name: mark_superseded
UPDATE episodes SET last = 0 WHERE kind = ? AND slug = ? AND last = 1;

-- name: replace_contradiction
INSERT INTO contradictions (id, newer, older, risk, waiting, body) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET newer = excluded.newer, older = excluded.older, risk = excluded.risk,
    waiting = excluded.waiting, body = excluded.body;

-- name: contradiction
SELECT body FROM contradictions WHERE id = ?;

-- name: contradictions
SELECT body FROM contradictions WHERE (? = 0 OR waiting = 1) AND (CAST(? AS TEXT) IS NULL OR id < ?) ORDER BY id DESC LIMIT ?;

-- name: waiting_contradictions
SELECT body FROM contradictions WHERE id IN (
    SELECT id FROM contradictions WHERE waiting = 1 AND newer = ?1
    UNION SELECT id FROM contradictions WHERE waiting = 1 AND older = ?1
    UNION SELECT id FROM contradictions WHERE waiting = 1 AND risk = ?1
) ORDER BY id;

-- name: insert_episode
INSERT INTO episodes (kind, slug, version, at, importance, pinned, expires_at, last, body)
VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?);

-- name: episode
SELECT body FROM episodes WHERE kind = ? AND slug = ? AND (CAST(? AS BIGINT) IS NULL OR version = ?) AND (CAST(? AS BIGINT) IS NULL OR at < ?)
ORDER BY version DESC LIMIT 1;

-- name: pinned_episodes
SELECT body FROM episodes WHERE last = 1 AND pinned = 1 AND (expires_at IS NULL OR expires_at > ?)
ORDER BY importance DESC, ordinal DESC LIMIT ?;

-- name: important_episodes
SELECT body FROM episodes
WHERE last = 1 AND pinned = 0 AND importance >= ? AND (expires_at IS NULL OR expires_at > ?)
ORDER BY importance DESC, ordinal DESC;

-- name: recent_episodes
SELECT body FROM episodes
WHERE last = 1 AND pinned = 0 AND at >= ? AND (expires_at IS NULL OR expires_at > ?)
ORDER BY at DESC, ordinal DESC;

-- name: episodes_after
SELECT body FROM episodes WHERE ordinal > ? ORDER BY ordinal LIMIT ?;

-- name: insert_snapshot
INSERT INTO snapshots (id, run, by, heir, at, recipe) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: snapshot_takings
SELECT run, by, heir, at, recipe FROM snapshots WHERE id = ? ORDER BY recipe IS NULL, at;

-- name: replace_contribution
INSERT INTO contributions (id, status, thread, session, content_hash, similarity_key, at, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET status = excluded.status, thread = excluded.thread, session = excluded.session,
    content_hash = excluded.content_hash, similarity_key = excluded.similarity_key, at = excluded.at,
    body = excluded.body;

-- name: contribution
SELECT body FROM contributions WHERE id = ?;

-- name: contributions
SELECT body FROM contributions
WHERE (CAST(? AS TEXT) IS NULL OR status = ?) AND (CAST(? AS TEXT) IS NULL OR thread = ?) AND (CAST(? AS TEXT) IS NULL OR id < ?) ORDER BY id DESC LIMIT ?;

-- name: first_contribution
SELECT id FROM contributions
WHERE session = ? AND content_hash = ? AND at >= ? AND status <> 'withdrawn' ORDER BY id LIMIT 1;

-- name: similar_contributions
SELECT id FROM contributions WHERE similarity_key = ? ORDER BY id DESC LIMIT ?;

-- name: add_tally
INSERT INTO tallies (run, agent, role, turns, messages, broadcasts, inline_tokens, rejections, resends, derefs,
    deref_tokens, requests, grants, engrams, contradictions, pointed_tokens, pointed_read_tokens,
    denials, warnings, rejected_tokens, counted_turn)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run, agent) DO UPDATE SET
    turns = tallies.turns + excluded.turns, messages = tallies.messages + excluded.messages,
    broadcasts = tallies.broadcasts + excluded.broadcasts, inline_tokens = tallies.inline_tokens + excluded.inline_tokens,
    rejections = tallies.rejections + excluded.rejections, resends = tallies.resends + excluded.resends,
    derefs = tallies.derefs + excluded.derefs, deref_tokens = tallies.deref_tokens + excluded.deref_tokens,
    requests = tallies.requests + excluded.requests, grants = tallies.grants + excluded.grants,
    engrams = tallies.engrams + excluded.engrams, contradictions = tallies.contradictions + excluded.contradictions,
    pointed_tokens = tallies.pointed_tokens + excluded.pointed_tokens,
    pointed_read_tokens = tallies.pointed_read_tokens + excluded.pointed_read_tokens, denials = tallies.denials + excluded.denials,
    warnings = tallies.warnings + excluded.warnings, rejected_tokens = tallies.rejected_tokens + excluded.rejected_tokens,
    counted_turn = CASE
        WHEN excluded.counted_turn > tallies.counted_turn THEN excluded.counted_turn ELSE tallies.counted_turn END;

-- name: counted_turn
SELECT counted_turn FROM tallies WHERE run = ? AND agent = ?;

-- name: tallies
SELECT agent, turns, messages, broadcasts, inline_tokens, rejections, resends, derefs, deref_tokens, requests,
    grants, engrams, contradictions, pointed_tokens, pointed_read_tokens, denials, warnings, rejected_tokens
FROM tallies WHERE run = ? ORDER BY agent;

-- name: tallies_of_project
SELECT role, sum(turns), sum(messages), sum(broadcasts), sum(inline_tokens), sum(rejections), sum(resends),
    sum(derefs), sum(deref_tokens), sum(requests), sum(grants), sum(engrams), sum(contradictions),
    sum(pointed_tokens), sum(pointed_read_tokens), sum(denials), sum(warnings), sum(rejected_tokens)
FROM tallies GROUP BY role ORDER BY role;

-- name: delivered_content
SELECT digest, tokens, file, first, last, read_tokens FROM delivered WHERE run = ? AND agent = ? AND digest = ?;

-- name: delivered_in_file
SELECT digest, tokens, file, first, last, read_tokens FROM delivered WHERE run = ? AND agent = ? AND file = ?;

-- name: put_delivered
INSERT INTO delivered (run, agent, digest, file, first, last, tokens, read_tokens) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (run, agent, digest) DO UPDATE SET read_tokens = excluded.read_tokens;

-- name: add_kind_count
INSERT INTO kinds_put (run, agent, kind, role, engrams) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (run, agent, kind) DO UPDATE SET engrams = kinds_put.engrams + excluded.engrams;

-- name: kind_counts
SELECT agent, kind, engrams FROM kinds_put WHERE run = ?;

-- name: kind_counts_of_project
SELECT role, kind, sum(engrams) FROM kinds_put GROUP BY role, kind;

-- name: add_outcomes
INSERT INTO outcomes (run, agent, letters) VALUES (?, ?, substr(?, -400))
ON CONFLICT (run, agent) DO UPDATE SET letters = substr(letters || excluded.letters, -400);

-- name: outcomes
SELECT agent, letters FROM outcomes WHERE run = ? ORDER BY agent;

-- name: add_denial_count
INSERT INTO denials (run, agent, code, role, denials) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (run, agent, code) DO UPDATE SET denials = denials.denials + excluded.denials;

-- name: denial_counts
SELECT agent, code, denials FROM denials WHERE run = ?;

-- name: denial_counts_of_project
SELECT role, code, sum(denials) FROM denials GROUP BY role, code;

-- name: add_history
INSERT INTO history (bucket, start, run, role, turns, messages, broadcasts, inline_tokens, rejections, resends,
    derefs, deref_tokens, requests, grants, engrams, contradictions, pointed_tokens, pointed_read_tokens,
    denials, warnings, rejected_tokens)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (bucket, start, run, role) DO UPDATE SET
    turns = history.turns + excluded.turns, messages = history.messages + excluded.messages,
    broadcasts = history.broadcasts + excluded.broadcasts, inline_tokens = history.inline_tokens + excluded.inline_tokens,
    rejections = history.rejections + excluded.rejections, resends = history.resends + excluded.resends,
    derefs = history.derefs + excluded.derefs, deref_tokens = history.deref_tokens + excluded.deref_tokens,
    requests = history.requests + excluded.requests, grants = history.grants + excluded.grants,
    engrams = history.engrams + excluded.engrams, contradictions = history.contradictions + excluded.contradictions,
    pointed_tokens = history.pointed_tokens + excluded.pointed_tokens,
    pointed_read_tokens = history.pointed_read_tokens + excluded.pointed_read_tokens, denials = history.denials + excluded.denials,
    warnings = history.warnings + excluded.warnings, rejected_tokens = history.rejected_tokens + excluded.rejected_tokens;

-- name: history
SELECT start, role, turns, messages, broadcasts, inline_tokens, rejections, resends, derefs, deref_tokens,
    requests, grants, engrams, contradictions, pointed_tokens, pointed_read_tokens, denials, warnings, rejected_tokens
FROM history WHERE run = ? AND bucket = ? AND start >= ? ORDER BY start, role;

-- name: history_of_project
SELECT start, role, sum(turns), sum(messages), sum(broadcasts), sum(inline_tokens), sum(rejections),
    sum(resends), sum(derefs), sum(deref_tokens), sum(requests), sum(grants), sum(engrams), sum(contradictions),
    sum(pointed_tokens), sum(pointed_read_tokens), sum(denials), sum(warnings), sum(rejected_tokens)
FROM history WHERE bucket = ? AND start >= ? GROUP BY start, role ORDER BY start, role;

-- name: insert_promotion
INSERT INTO promotions (request_id, engram, asked, asked_at) VALUES (?, ?, ?, ?);

-- name: answer_promotion
UPDATE promotions SET answered = ?, answered_at = ? WHERE request_id = ?;

-- name: promotion
SELECT asked, asked_at, answered, answered_at FROM promotions WHERE request_id = ?;

-- name: waiting_promotion
SELECT asked, asked_at, answered, answered_at FROM promotions
WHERE engram = ? AND answered IS NULL ORDER BY rowid DESC LIMIT 1;

-- name: promotions
SELECT asked, asked_at, answered, answered_at FROM promotions
WHERE ? = 0 OR answered IS NULL ORDER BY rowid DESC LIMIT ?;

-- name: insert_gate_override
INSERT INTO gate_overrides (fingerprint, body, made_at) VALUES (?, ?, ?);

-- name: gate_override
SELECT body, made_at FROM gate_overrides WHERE fingerprint = ? ORDER BY position DESC LIMIT 1;

-- name: newest_gate_overrides
SELECT body, made_at FROM gate_overrides ORDER BY position DESC LIMIT ?;

-- name: voters
SELECT ordinal, root FROM votes JOIN engrams USING (ordinal) WHERE ordinal = ? AND expires_at > ?;

-- name: valued_uses
-- The columns are those of `ValuedUse`. The using engram is looked up in the project's space only.
SELECT engrams.ordinal, uses.run || '/' || coalesce(agents.root, uses.agent), 'r' || runs.number,
    uses.kind = 'engram' AND EXISTS (
        SELECT 1 FROM engrams AS users WHERE users.space = 'p' AND users.id = uses.item AND users.expires_at > ?),
    uses.kind IN ('contribution', 'review') AND EXISTS (
        SELECT 1 FROM contributions WHERE contributions.id = uses.item AND contributions.status = 'accepted')
FROM engrams CROSS JOIN uses JOIN runs ON runs.run_id = uses.run
    LEFT JOIN agents ON agents.run = uses.run AND agents.name = uses.agent
WHERE uses.engram = engrams.id AND engrams.ordinal = ? AND engrams.expires_at > ? ORDER BY uses.position DESC LIMIT ?;

-- name: valued_engram
SELECT space, body FROM engrams WHERE ordinal = ?;

-- name: agent_root
SELECT root FROM agents WHERE run = ? AND name = ?;
