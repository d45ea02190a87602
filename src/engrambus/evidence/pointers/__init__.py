"""Pointers: addresses of evidence, how they are written, and how they are read."""

from typing import TYPE_CHECKING

from engrambus.lazy_imports import lazy_exports

if TYPE_CHECKING:
    from engrambus.evidence.pointers.addresses import (
        Address,
        ArtifactAddress,
        BodyAddress,
        DiffAddress,
        Pointer,
        RepoAddress,
        SamAddress,
        TestAddress,
        UrlAddress,
    )
    from engrambus.evidence.pointers.branch_changes import BranchChanges, Touch, line_changes
    from engrambus.evidence.pointers.branch_evidence import BranchEvidence
    from engrambus.evidence.pointers.documents import ArtifactResolver
    from engrambus.evidence.pointers.excerpts import DerefAnswer, PointedText, cut_to_fit, pointed_text
    from engrambus.evidence.pointers.file_statuses import FileStatuses
    from engrambus.evidence.pointers.git import GitRepository, find_repository
    from engrambus.evidence.pointers.git_history import commit_time_s, is_ancestor, line_times, read_history
    from engrambus.evidence.pointers.git_process import git_environment, run_git
    from engrambus.evidence.pointers.grammar import (
        MAX_REF,
        check_name,
        check_path,
        check_pointer,
        parse_ref,
        print_address,
    )
    from engrambus.evidence.pointers.links import (
        editor_link,
        github_compare_link,
        github_link,
        github_section_link,
        parse_github_link,
        parse_swhid,
        short_ref,
        shorten_refs,
        swhid,
    )
    from engrambus.evidence.pointers.read_spans import Coverage, FileLines, ReadSpan, all_of, cover, print_spans
    from engrambus.evidence.pointers.repo import DiffResolver, RepoResolver, cut_lines, diff_paths
    from engrambus.evidence.pointers.repositories import Repositories, name_repository
    from engrambus.evidence.pointers.resolve import Content, Evidence, Origin, Resolver
    from engrambus.evidence.pointers.short_pointers import FileSpan, PointerCompleter, is_ref, parse_file_span
    from engrambus.evidence.pointers.short_refs import compact_ref, pointed_path
    from engrambus.evidence.pointers.staleness import (
        STALE,
        CompareTarget,
        EvidenceState,
        FileRanges,
        LinesNow,
        Staleness,
        StalenessChecker,
    )
    from engrambus.evidence.pointers.state_words import describe_state
    from engrambus.evidence.pointers.stored import BodyResolver, TestResolver
    from engrambus.evidence.pointers.trackable_files import TrackableFiles
    from engrambus.evidence.pointers.url import UrlResolver, UrlSettings
    from engrambus.evidence.pointers.worktrees import (
        checked_out_commit,
        find_registered,
        find_worktree,
        git_identity,
        hooks_folder,
        open_worktree,
        worktree_head,
    )

# Below this line: generated from the imports above by tools/generate.py.
# fmt: off
if not TYPE_CHECKING:
    __getattr__ = lazy_exports(__name__, {
        "addresses": (
            "Address ArtifactAddress BodyAddress DiffAddress Pointer RepoAddress SamAddress TestAddress "
            "UrlAddress "
        ),
        "branch_changes": "BranchChanges Touch line_changes",
        "branch_evidence": "BranchEvidence",
        "documents": "ArtifactResolver",
        "excerpts": "DerefAnswer PointedText cut_to_fit pointed_text",
        "file_statuses": "FileStatuses",
        "git": "GitRepository find_repository",
        "git_history": "commit_time_s is_ancestor line_times read_history",
        "git_process": "git_environment run_git",
        "grammar": "MAX_REF check_name check_path check_pointer parse_ref print_address",
        "links": (
            "editor_link github_compare_link github_link github_section_link parse_github_link parse_swhid "
            "short_ref shorten_refs swhid "
        ),
        "read_spans": "Coverage FileLines ReadSpan all_of cover print_spans",
        "repo": "DiffResolver RepoResolver cut_lines diff_paths",
        "repositories": "Repositories name_repository",
        "resolve": "Content Evidence Origin Resolver",
        "short_pointers": "FileSpan PointerCompleter is_ref parse_file_span",
        "short_refs": "compact_ref pointed_path",
        "staleness": "STALE CompareTarget EvidenceState FileRanges LinesNow Staleness StalenessChecker",
        "state_words": "describe_state",
        "stored": "BodyResolver TestResolver",
        "trackable_files": "TrackableFiles",
        "url": "UrlResolver UrlSettings",
        "worktrees": (
            "checked_out_commit find_registered find_worktree git_identity hooks_folder open_worktree "
            "worktree_head "
        ),
    })

__all__ = [
    "MAX_REF", "STALE", "Address", "ArtifactAddress", "ArtifactResolver", "BodyAddress", "BodyResolver",
    "BranchChanges", "BranchEvidence", "CompareTarget", "Content", "Coverage", "DerefAnswer", "DiffAddress",
    "DiffResolver", "Evidence", "EvidenceState", "FileLines", "FileRanges", "FileSpan", "FileStatuses", "GitRepository",
    "LinesNow", "Origin", "PointedText", "Pointer", "PointerCompleter", "ReadSpan", "RepoAddress", "RepoResolver",
    "Repositories", "Resolver", "SamAddress", "Staleness", "StalenessChecker", "TestAddress", "TestResolver", "Touch",
    "TrackableFiles", "UrlAddress", "UrlResolver", "UrlSettings", "all_of", "check_name", "check_path", "check_pointer",
    "checked_out_commit", "commit_time_s", "compact_ref", "cover", "cut_lines", "cut_to_fit", "describe_state",
    "diff_paths", "editor_link", "find_registered", "find_repository", "find_worktree", "git_environment",
    "git_identity", "github_compare_link", "github_link", "github_section_link", "hooks_folder", "is_ancestor",
    "is_ref", "line_changes", "line_times", "name_repository", "open_worktree", "parse_file_span", "parse_github_link",
    "parse_ref", "parse_swhid", "pointed_path", "pointed_text", "print_address", "print_spans", "read_history",
    "run_git", "short_ref", "shorten_refs", "swhid", "worktree_head",
]
