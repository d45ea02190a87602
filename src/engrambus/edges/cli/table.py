"""Every command with its summary and an example, as plain data, so that help needs nothing else loaded.

A test holds the table against the declared operations: their summaries are repeated here word for word.
"""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """One command."""

    section: str
    summary: str
    example: str
    made_of: str
    """The operation it calls, by name; for commands that are more than one, where they are written:
    `module:function`."""


START, KNOW, WORK, TEAM, CARE = "Start", "Knowledge", "Work", "Team", "Care"

COMMANDS: dict[str, Entry] = {
    "init": Entry(
        START, "Make a project here: its .catalog folder, its keys and a first run.", "engrambus init", "start:init"
    ),
    "up": Entry(
        START, "Serve the project on this machine and print a link to it.", "engrambus up --port 7171", "up:up"
    ),
    "mcp": Entry(START, "Serve the project to one MCP client over stdin and stdout.", "engrambus mcp", "start:mcp"),
    "demo": Entry(
        START, "Watch a team of four review this repository, in a minute.", "engrambus demo --fresh", "demo:demo"
    ),
    "install": Entry(
        START,
        "Write a client's own configuration: the MCP server, its hooks and the skill.",
        "engrambus install claude-code --dry-run",
        "clients:install",
    ),
    "uninstall": Entry(
        START,
        "Take out of a client's configuration what install put in.",
        "engrambus uninstall claude-code",
        "clients:uninstall",
    ),
    "hook": Entry(
        START, "Answer a client's hook: JSON on stdin, JSON on stdout.", "engrambus hook < event.json", "start:hook"
    ),
    "put": Entry(
        KNOW,
        "Put one claim on the bus, anchored to pointers.",
        'engrambus put "Refunds over 500 need a second approval." --at src/refunds.py:10-20 --kind constraint',
        "put_engram",
    ),
    "query": Entry(
        KNOW,
        "Find what the team knows: by words, or the newest.",
        "engrambus query refund approval --kind risk",
        "query_engrams",
    ),
    "deref": Entry(
        KNOW,
        "Read what a pointer points at, within a budget.",
        "engrambus deref src/refunds.py:10-20 --max-tokens 200",
        "deref_pointer",
    ),
    "brief": Entry(
        KNOW, "What matters now for a role, in at most thirty lines.", "engrambus brief --role programmer", "brief"
    ),
    "briefs": Entry(
        KNOW,
        "The versions of a role's brief, what one of them says, and what changed.",
        "engrambus briefs --role programmer --version 4 --since 3",
        "list_briefs",
    ),
    "feed": Entry(
        KNOW,
        "Engrams as they came, newest first, with who said each and whether its evidence still stands.",
        "engrambus feed ledger --role programmer --stale",
        "feed",
    ),
    "anchor": Entry(
        KNOW,
        "Find the lines that hold a text, and point at them.",
        'engrambus anchor "def refund(order):" --path src/refunds.py',
        "anchor_text",
    ),
    "show": Entry(KNOW, "Show one engram.", "engrambus show 01K7Z3V5QX0000000000000000", "get_engram"),
    "link": Entry(
        KNOW,
        "Turn a repo pointer into links for the editor, the forge and the archive.",
        "engrambus link src/refunds.py:10-20",
        "link_pointer",
    ),
    "promote": Entry(
        KNOW,
        "Let an engram be seen further: a decision for a parent of its author.",
        "engrambus promote 01K7Z3V5QX0000000000000000 --scope project",
        "promote_engram",
    ),
    "confirm": Entry(
        KNOW,
        "Say that an engram still holds: its ttl starts anew.",
        "engrambus confirm 01K7Z3V5QX0000000000000000",
        "confirm_engram",
    ),
    "forget": Entry(
        KNOW, "Take an engram off the bus.", "engrambus forget 01K7Z3V5QX0000000000000000", "forget_engram"
    ),
    "pin": Entry(
        KNOW,
        "Have an engram stand first in every brief, until it is unpinned.",
        "engrambus pin 01K7Z3V5QX0000000000000000",
        "pin_engram",
    ),
    "unpin": Entry(
        KNOW,
        "Let an engram take its turn in the briefs again.",
        "engrambus unpin 01K7Z3V5QX0000000000000000",
        "unpin_engram",
    ),
    "out": Entry(
        WORK,
        "Put a tuple into the space.",
        "engrambus out --lane build --yool agent.lint.ruff --arg path=src",
        "work:out",
    ),
    "rd": Entry(
        WORK,
        "Read the oldest tuple that matches a pattern, and leave it there.",
        "engrambus rd --lane build --where map_pos.stack=python",
        "work:rd",
    ),
    "in": Entry(
        WORK, "Take one waiting tuple out of the space for good.", "engrambus in --lane notes --timeout 10", "work:in_"
    ),
    "dispatch": Entry(WORK, "Hand work over; answers at once.", "engrambus dispatch tuple.json", "work:dispatch"),
    "observe": Entry(
        WORK,
        "What became of a tuple.",
        "engrambus observe sha256:61a6ffdddafeee3fc081cfbe189306b35a39fc01b3438d0917016f00ec9f16b9",
        "tuple_observe",
    ),
    "worker": Entry(
        WORK,
        "Work on the tuples of a lane until told to stop.",
        "engrambus worker --lane build --concurrency 4 --import tools.yools",
        "worker:worker",
    ),
    "resume": Entry(
        WORK,
        "Go on with the newest run that has unfinished work, or --run RUN, from the first missing step of each tuple.",
        "engrambus resume --import tools.yools",
        "worker:resume",
    ),
    "board": Entry(
        WORK,
        "The work board: lanes, what is worked on, what has ended, what was given up, and what it cost.",
        "engrambus board",
        "work_board",
    ),
    "runs": Entry(
        WORK,
        "Runs with work in them: how much is done, from the cache, dead or unfinished, and what it cost.",
        "engrambus runs",
        "list_work",
    ),
    "dead": Entry(
        WORK,
        "Tuples that were given up: tried as often as they might be, too late, or too dear.",
        "engrambus dead",
        "list_dead",
    ),
    "again": Entry(
        WORK,
        "Put a dead letter once more, as a new tuple that says the same.",
        "engrambus again sha256:61a6ffdddafeee3fc081cfbe189306b35a39fc01b3438d0917016f00ec9f16b9",
        "tuple_again",
    ),
    "cancel": Entry(
        WORK,
        "End a tuple that waits or is being worked on.",
        "engrambus cancel sha256:61a6ffdddafeee3fc081cfbe189306b35a39fc01b3438d0917016f00ec9f16b9",
        "cancel_tuple",
    ),
    "receipt get": Entry(
        WORK,
        "What one execution did.",
        "engrambus receipt get sha256:61a6ffdddafeee3fc081cfbe189306b35a39fc01b3438d0917016f00ec9f16b9",
        "receipt_get",
    ),
    "receipt verify": Entry(
        WORK,
        "Recompute a receipt's id and the digest of everything it names.",
        "engrambus receipt verify sha256:61a6ffdddafeee3fc081cfbe189306b35a39fc01b3438d0917016f00ec9f16b9",
        "receipt_verify",
    ),
    "receipt junit": Entry(
        WORK,
        "Record a test report as a receipt, so that test: pointers lead into it.",
        "engrambus receipt junit report.xml",
        "record_tests",
    ),
    "catalog build": Entry(
        WORK,
        "Write .catalog/capabilities.json from AGENTS.md and the code you name.",
        "engrambus catalog build --stack python",
        "catalog:build",
    ),
    "catalog lookup": Entry(
        WORK,
        "A yool: what for, for whom, on which terms.",
        "engrambus catalog lookup agent.lint.ruff",
        "catalog_lookup",
    ),
    "catalog list": Entry(
        WORK, "The yools of a lane, or all.", "engrambus catalog list --lane build", "catalog_list_by_lane"
    ),
    "catalog lint": Entry(
        WORK,
        "Check names against the naming rules, and that none was renamed.",
        "engrambus catalog lint",
        "catalog:lint",
    ),
    "catalog diff": Entry(
        WORK,
        "What changed from one catalog file to another, or what a build would change.",
        "engrambus catalog diff old.json",
        "catalog:diff",
    ),
    "message": Entry(
        TEAM,
        "Report to your parent: engrams, pointers and a short answer.",
        "engrambus message report.yaml",
        "send_message",
    ),
    "broadcast": Entry(
        TEAM,
        "Tell your children what matters, what they may spend and what to do.",
        "engrambus broadcast brief.yaml",
        "broadcast",
    ),
    "check": Entry(
        TEAM,
        "Tell what would be said about a message, without sending it.",
        "engrambus check report.yaml",
        "validate_message",
    ),
    "answer": Entry(
        TEAM,
        "Take an agent's last answer: a message is kept as one, prose is only held to the budget.",
        "engrambus answer said.txt --as coder-1",
        "take_answer",
    ),
    "inbox": Entry(TEAM, "What others sent you: reports, broadcasts, requests and grants.", "engrambus inbox", "inbox"),
    "grant issue": Entry(
        TEAM,
        "Let a child read more than its turn allows.",
        "engrambus grant issue coder src/refunds.py:1-200 --cap-tokens 500",
        "issue_grant",
    ),
    "grant ask": Entry(
        TEAM,
        "Ask your parent to let you read more.",
        'engrambus grant ask src/refunds.py --reason "To check the limit"',
        "request_deref",
    ),
    "grant check": Entry(
        TEAM,
        "Tell whether a dereference would be allowed now, without doing it.",
        "engrambus grant check src/refunds.py:10-20",
        "validate_deref",
    ),
    "grant requests": Entry(TEAM, "Requests that wait for your answer.", "engrambus grant requests", "list_requests"),
    "grant approve": Entry(
        TEAM, "Grant what was asked for.", "engrambus grant approve 01K7Z3V5QX0000000000000000", "approve_request"
    ),
    "grant deny": Entry(
        TEAM, "Turn a request down.", "engrambus grant deny 01K7Z3V5QX0000000000000000", "deny_request"
    ),
    "grant revoke": Entry(
        TEAM,
        "Take a grant back, and every token narrowed from it.",
        "engrambus grant revoke 01K7Z3V5QX0000000000000000",
        "revoke_grant",
    ),
    "run new": Entry(
        TEAM,
        "Open a run and make it the current one.",
        'engrambus run new "Move billing to the new ledger"',
        "open_run",
    ),
    "run end": Entry(
        TEAM,
        "End a run: its agents can still read, and write no more.",
        "engrambus run end 01K7Z3V5QX0000000000000000",
        "end_run",
    ),
    "run list": Entry(TEAM, "The runs opened last.", "engrambus run list", "list_runs"),
    "agent add": Entry(
        TEAM,
        "Add an agent to the run and give it a token.",
        "engrambus agent add coder-1 --role programmer --parent lead",
        "add_agent",
    ),
    "agent token": Entry(
        TEAM, "Give an agent another token.", "engrambus agent token coder-1 --expires-in P7D", "agent_token"
    ),
    "agent list": Entry(TEAM, "Who is in the run.", "engrambus agent list", "list_agents"),
    "memory read": Entry(
        KNOW,
        "Read JSONL memory stores: the same question gives the same excerpts, within a token budget.",
        'engrambus memory read --query "refund approval" --store notes.jsonl --max-excerpt-tokens 400',
        "memory:read",
    ),
    "memory keep": Entry(
        KNOW,
        "Remember something for the team: a decision, a preference, how work stands.",
        'engrambus memory keep "We publish under example.org." --kind decision --importance 0.9',
        "keep_episode",
    ),
    "memory pin": Entry(
        KNOW,
        "Keep something remembered in working memory, or take it out.",
        "engrambus memory pin decision:we-publish-under-example-org",
        "pin_episode",
    ),
    "inherit": Entry(
        TEAM,
        "Take over what the team remembers: pins, what matters, what is recent, within a size.",
        "engrambus inherit --for coder-1",
        "inherit",
    ),
    "contribute": Entry(
        TEAM,
        "Hand a learning to your parent, who decides whether the team remembers it.",
        'engrambus contribute "Retries of the ledger are idempotent." --thread-id billing --confidence 0.9',
        "contribute",
    ),
    "review list": Entry(
        TEAM,
        "Contributions that wait for a decision, yours and those of your descendants.",
        "engrambus review list",
        "list_contributions",
    ),
    "review show": Entry(
        TEAM,
        "Show one contribution, with what was found out about it.",
        "engrambus review show 01K7Z3V5QX0000000000000000",
        "show_contribution",
    ),
    "review accept": Entry(
        TEAM,
        "Let the team remember what a sub-agent learned: a decision for a parent of its author.",
        "engrambus review accept 01K7Z3V5QX0000000000000000 --kind decision",
        "accept_contribution",
    ),
    "review reject": Entry(
        TEAM,
        "Turn a contribution down, and keep the reason.",
        'engrambus review reject 01K7Z3V5QX0000000000000000 --reason "Measured on one machine only."',
        "reject_contribution",
    ),
    "review withdraw": Entry(
        TEAM,
        "Take back a contribution of your own that nobody has decided on.",
        "engrambus review withdraw 01K7Z3V5QX0000000000000000",
        "withdraw_contribution",
    ),
    "stats": Entry(
        CARE,
        "How the team does, in figures: tokens, dereferences, messages, engrams, now and over time.",
        "engrambus stats --bucket PT1M --last 60",
        "stats",
    ),
    "agent turn": Entry(
        TEAM,
        "Close an agent's turn where its client says one ended; one in which nothing was read stays open.",
        "engrambus agent turn coder-1 --why prompt",
        "close_turn",
    ),
    "agent budget": Entry(
        TEAM,
        "What the agents of the run have read together, and what is left before it takes no new ones on.",
        "engrambus agent budget",
        "team_budget",
    ),
    "doctor": Entry(
        CARE,
        "Check the project, the machine and every client, and say what to do next.",
        "engrambus doctor",
        "clients:doctor",
    ),
    "verify": Entry(
        CARE,
        "Recompute every checksum and hold the index against a rebuild from the journal.",
        "engrambus verify",
        "verify",
    ),
    "recover": Entry(
        CARE,
        "Set a damaged part of the journal aside and keep all that is sound.",
        "engrambus recover",
        "recover:recover",
    ),
    "gc": Entry(
        CARE, "Make room: take away what receipts no longer have to keep.", "engrambus gc --dry-run", "collect_garbage"
    ),
    "policy apply": Entry(CARE, "Put the project's policy file into force.", "engrambus policy apply", "apply_policy"),
}

GROUPS = {
    "receipt": "What was done: one record for each execution.",
    "catalog": "What can be done: yools by name, who may have them run, and on which terms.",
    "run": "Open and end runs: stretches of work with a goal.",
    "agent": "Add agents to the run and give them tokens.",
    "grant": "Let agents read more than a turn allows, and ask to.",
    "memory": "Read memory stores, and remember for the team.",
    "review": "Decide what the team remembers of what was learned.",
    "policy": "Decide what the project allows.",
}
