"""Administration of a project: its policy."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

import engrambus.policy as policy
from engrambus.core import print_time, read_yaml
from engrambus.core.files import read_file
from engrambus.errors import EngramBusError, RoleForbidden
from engrambus.gateway.context import Context
from engrambus.gateway.declare import ADMINS, Command, Route, operation
from engrambus.gateway.ports import View
from engrambus.policy import ADMIN, POLICY_FILE, ROLES, LimitSetting, Policy, PolicyApplied, Role

MAX_POLICIES = 100
"""Applied policies that are searched for where a setting comes from."""
_FOR_ADMINS = ("memory_folders", "visibility")
"""Policy keys that tell of what agents cannot reach; they are shown to admins only."""

_LOCAL_ONLY = {"http": "for the admin at the machine", "mcp": "for the admin at the machine"}


class ApplyPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    policy: Annotated[dict[str, Any], Meta(description="The content of .catalog/policy.yaml")]


class PolicyAnswer(Struct, frozen=True, kw_only=True):
    policy: dict[str, Any]
    """The settings that differ from the defaults."""


@operation(
    "policy.apply",
    roles=ADMINS,
    writes=True,
    command=Command(
        "policy apply",
        section="maintenance",
        example="engrambus policy apply",
        renderer="maintenance:policy",
        rank=60,
        override="maintenance:policy_apply",
    ),
    absent_from=_LOCAL_ONLY,
)
def apply_policy(context: Context, request: ApplyPolicy) -> PolicyAnswer:
    """Apply the project's policy file, .catalog/policy.yaml: its limits and permissions.

    Until it is applied, a changed file has no effect.
    """
    applied = policy.apply_policy(request.policy, caller=context.caller)

    def decide(view: View) -> tuple[list[PolicyApplied], PolicyAnswer]:
        return [applied], PolicyAnswer(policy=applied.policy)

    return context.commit(decide, PolicyAnswer, in_run=False)


class ShowPolicy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The role to show the policy for."""

    role: Annotated[Role | None, Meta(description="Show how the limits apply to this role only")] = None


FileState = Literal["applied", "edited", "invalid", "absent"]


class SettingRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One key of the policy."""

    key: str
    value: Any
    meaning: str
    set_at: str | None = None
    """When it was set; none if it is the default."""
    set_by: str | None = None


class PolicyShown(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The policy in force."""

    settings: list[SettingRow]
    limits: list[LimitSetting]
    file: FileState
    """The policy file beside the policy in force: `edited` means that it says something else and is not applied."""
    applied_at: str | None = None
    """When the policy in force was applied; none if it is the default one."""
    applied_by: str | None = None
    problem: str | None = None
    """The reason why the file cannot be applied."""


@operation(
    "policy.show",
    route=Route("GET", "/policy"),
    command=Command(
        "policy show",
        section="maintenance",
        example="engrambus policy show --role programmer",
        renderer="maintenance:policy_in_force",
        rank=58,
    ),
    absent_from={"mcp": "people set limits; a refusal tells an agent the one it met"},
)
def show_policy(context: Context, request: ShowPolicy) -> PolicyShown:
    """Show every setting of the policy in force, where it was set, and how each limit applies.

    An agent sees how the limits apply to its own role.
    """
    caller = context.caller
    is_admin = caller.role == ADMIN
    roles = [request.role or caller.role] if request.role or not is_admin else ROLES
    if not is_admin and request.role not in (None, caller.role):
        raise RoleForbidden("An agent sees the policy of its own role.", field="role", limit=caller.role)
    applied = context.view.applied_policies(limit=MAX_POLICIES)
    state, problem = _compare_file(context.project_files.catalog_path(POLICY_FILE), context.policy)
    return PolicyShown(
        settings=[
            SettingRow(
                key=setting.key,
                value=setting.value,
                meaning=setting.meaning,
                set_at=print_time(setting.set_us) if setting.set_us is not None else None,
                set_by=setting.set_by,
            )
            for setting in policy.explain_settings(applied)
            if is_admin or setting.key not in _FOR_ADMINS
        ],
        limits=policy.explain_limits(context.policy, roles),
        file=state,
        problem=problem,
        applied_at=print_time(applied[0].at_us) if applied else None,
        applied_by=applied[0].by if applied else None,
    )


def _compare_file(path: Path, in_force: Policy) -> tuple[FileState, str | None]:
    """Compare the policy file with the policy in force; return why it is invalid, if it is."""
    try:
        written = policy.read_policy(read_yaml(read_file(path).decode()))
    except FileNotFoundError:
        return "absent", None
    except EngramBusError as problem:
        return "invalid", problem.detail
    except (OSError, UnicodeDecodeError):
        return "invalid", f"{POLICY_FILE} cannot be read as text."
    return ("applied" if written == in_force else "edited"), None
