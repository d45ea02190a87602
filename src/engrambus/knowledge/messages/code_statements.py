"""Statements that are code wherever they stand, in the middle of a sentence too: one pattern for each form.

A pattern is tried only on texts that have one of its words and all of its characters, so that prose costs little. No
pattern nests repetitions, and every repetition of a class that is not a name has a bound.
"""

# ruff: noqa: E501  (a pattern that is one line can be searched for)

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final, NamedTuple

_NAME = r"[A-Za-z_][\w.]{0,60}"
_ARGS = r"\([^()\n]{0,160}\)"
_NESTED = r"\((?:[^()\n]|\([^()\n]{0,60}\)){0,160}\)"
_TYPE = r"[\w<>\[\]?.&*:, |']{1,60}"
_SQL_COLUMN = r"(?:[\w.*\"]{1,60}(?:\([^()\n]{0,40}\))?(?: as \w{1,40})?)"
_SQL_TEST = r"\w[\w.()\"]{0,60} ?(?:[=<>!]|(?:not )?in ?\(|like '|is (?:not )?null\b|between \S)"
_VALUE = r"(?:new |await |not |\w+[.(\[{]|[\"'\[{&$`]|\([\w, ]{0,40}\) ?=>)"


class Statement(NamedTuple):
    """A form of statement, and what a line needs to have it: one of the words, all characters, one of the pieces."""

    words: str
    characters: str
    pattern: str
    pieces: str = ""


STATEMENTS: Final[dict[str, Statement]] = {
    # Python
    "def": Statement("def", "(:", rf"\bdef {_NAME}{_NESTED}(?: ?-> ?[^:\n]{{1,60}})?:"),
    "for in": Statement("for", ":", rf"\bfor \w+(?:, ?\w+){{0,3}} in {_NAME}(?:{_ARGS})?:(?= ?\S|$)(?! the\b| a\b)"),
    "comprehension": Statement(
        "for", "", r"[\[({][\"']?[\w.]+[\"']?(?:\([^()\n]{0,40}\)|\[[^\]\n]{0,40}\]| ?[-+*/%:] ?[\w.\"']+){0,3} for \w+(?:, ?\w+){0,3} in [\w.]+[^\[\]{}\n]{0,80}[\])}]"
    ),
    "from import": Statement("import", "", rf"\bfrom \.{{0,2}}{_NAME} import [\w*({{]"),
    "lambda": Statement("lambda", ":", r"(?<![\w-])lambda(?: \*{0,2}\w+(?:, ?\*{0,2}\w+){0,5})?: ?[\w.(\[{\"'-]+[(\[.+*/, -]"),
    "with as": Statement("with", "(", rf"\bwith {_NAME}{_ARGS} as \w+"),
    "one-line if": Statement(
        "if elif while else try except",
        ":",
        r"\b(?:(?:if|elif|while|except) [^:\n.?!;]{1,80}|else|try): "
        r"(?:raise [A-Z(\w]|return\b|break\b|continue\b|pass\b|[\w.]{1,40}(?:\[[^\]\n]{0,30}\])? ?[-+*/]?= ?|[\w.]{1,40}\()",
    ),
    "return": Statement(
        "return", "", r"\breturn (?:not )?[\w.]+(?:\([^()\n]{0,60}\))? (?:[-+*/%<>]|[=!<>]=|\|\||&&) [\"'\w(]"
    ),
    "return call": Statement("return await yield", "(", r"(?:^|[;:{)] ?)(?:return|yield|await)(?: await)? [\w.]{1,60}\([^()\n]{1,80}[),(]"),
    "return value": Statement("return", "", r"^return (?:[\[{\"'].{0,200}[\]}\"'];?$|[^,.!?]{1,60} if [^,.!?]{1,60} else \S+;?$|\w+;$)"),
    "raise": Statement("raise throw", "(", r"(?:^|[;:{)] ?)(?:raise|throw new|throw) [A-Z][\w.]{1,60}\("),
    "self": Statement("self this", ".", r"\b(?:self|this)\.\w+(?:\[[^\]\n]{0,30}\]|\.\w+)? ?[-+*/|&]?= ?[^\s=]"),
    "decorator": Statement("", "@(", r"^@[A-Za-z_][\w.]*\(.*\)$"),
    # Braces: C, C++, C#, Java, JavaScript, TypeScript, Go, Rust, Kotlin, Swift, PHP, Scala
    "condition block": Statement(
        "if while for switch catch foreach when using lock match synchronized",
        "({",
        r"\b(?:if|while|for|foreach|switch|catch|when|using|lock|synchronized) ?\([^{}\n]{1,160}\) ?\{",
    ),
    "bare condition block": Statement(
        "if for while match guard switch select", "{", r"\b(?:if|for|while|match|guard|switch) [^{}\n.?!]{1,80}[\w)\]\"'] \{(?! ?#)(?:\s|$)|\bselect \{ ?case\b"
    ),
    "condition": Statement(
        "if while for foreach",
        "(",
        r"\b(?:if|while|for|foreach) ?\([^{}\n]{1,120}\) ?"
        r"(?:return|throw|break|continue|delete|[\w.]{1,40}(?:\[\w{0,20}\])?(?: ?[-+*/]?= ?[^=\s]|\+\+|\())",
    ),
    "if else": Statement("else", "(", r"\bif ?\([^()\n]{1,60}\) [\w.()\[\]\"']{1,40} else [\w\"'(\[]"),
    "for loop": Statement("for", "(;", r"\bfor ?\([^()\n]{0,60};[^()\n]{0,60};[^()\n]{0,60}\)"),
    "function": Statement("function func fn fun", "(", r"\b(?:function|func|fn|fun)(?: ?\*)?(?: \([\w *]{1,40}\))?(?: <[^>\n]{0,40}>)? ?[\w.:]{0,60}(?:<[^>\n]{0,40}>)?\([^()\n]{0,160}\) ?(?:\{|->|:|=|throws|[\w*\[\].]+ \{|\([^()\n]{0,40}\) \{|return\b|\w+$)"),
    "type": Statement(
        "class interface struct enum trait impl union namespace object extension record protocol module",
        "{",
        r"\b(?:class|interface|struct|enum|trait|impl|union|namespace|object|extension|record|protocol)"
        r"(?:<[^<>\n]{0,40}>)? [\w<>:,.&' ]{0,80}[\w>] ?\{(?! ?#|\})",
    ),
    "declaration with parameters": Statement("class record", "(", r"\b(?:data|case|sealed|inner) class \w+\(|\brecord \w+\([\w<>]+ \w+"),
    "const": Statement("const var val let", "=", rf"\b(?:const|var|val)(?: mut)? [\w{{}}\[\], ]{{1,60}}(?:: ?{_TYPE})? ?= ?\S"),
    "let": Statement("let", "=", rf"\blet (?:mut )?[\w{{}}\[\], ]{{1,60}}(?:: ?{_TYPE})? = (?:{_VALUE}|\w+;|\d+;|\w+ \?\?|\w{{3,}} [-+*/]|true|false|nil|null)"),
    "let mut": Statement("let", "", r"\blet mut \w|\b(?:guard|if) (?:let|var) \w+ = "),
    "typed variable": Statement("", "=", rf"^(?:[a-z]+ ){{0,3}}[A-Z]\w*(?:<[^;=()\n]{{0,60}}>|\[\])?\*? \w+ = {_VALUE}"),
    "type alias": Statement("type", "=", r"^(?:export )?type \w+(?:<[^>\n]{0,40}>)? = "),
    "modifiers": Statement(
        "public private protected static internal readonly export final override",
        "",
        r"(?:^|[;{}] ?)(?:(?:public|private|protected|static|final|abstract|override|async|internal|readonly|export|inline|virtual) ){1,4}"
        r"(?:function|class|const|let|var|val|fun|func|fn|enum|interface|type|default|def|[\w<>\[\],.?]{1,60} \w+ ?[({=;]|[\w<>\[\],.?]{1,60} \w+ ?$(?<=;))",
    ),
    "prototype": Statement("", "(", r"^(?:[\w:<>*&\[\]]{1,60} ){1,4}[*&]*\w+(?:::~?\w+)?\((?:(?:const |struct |unsigned )?[\w:<>]{1,40}[ *&]+\w+(?:, ?|(?=\)))|void(?=\))|(?=\))){1,8}\)(?: const| noexcept)? ?[{;]"),
    "arrow function": Statement("", "=>(", r"\([\w, :{}\[\]=<>|.]{0,80}\) ?=> ?\S|\b\w+ => ?(?:\{|\w+\.\w|\w+\(|\()", "=>"),
    "assigned function": Statement("function", "=", r"[=:] ?(?:async )?function\b ?\w*\("),
    "export": Statement("export exports", "", r"\bmodule\.exports(?:\.\w+)? ?=|^export (?:default |\{|\*|const |function |class |async |type |interface )"),
    "import from": Statement("import require", "", r"^import (?:type )?[\w{*][\w{}*, $]{0,120} from [\"']|^import [\"'][^\"'\n]{1,80}[\"']|= require\([\"']"),
    "import path": Statement("import use using package", "", r"^(?:import(?: static| qualified)?|use|using(?: static)?|package) \w+(?:(?:\.|::|\\)[\w{}*, ]{1,60}){1,8}(?: as \w+)?;$|^import(?: qualified)? [A-Za-z]\w*(?:\.\w+){1,8}(?: as \w+| \([\w, ()]{0,80}\))?$|^import \w+(?:\.\w+)*(?: as \w+|(?:, \w+(?:\.\w+)*){1,6})$|^use \w+(?:::[\w{}*, ]{1,60}){1,6};?$"),
    "preprocessor": Statement("include define ifdef ifndef endif pragma undef import", "#", r"^#[ \t]*(?:include ?[<\"]|define \w+(?:\([\w, ]*\))?|ifn?def \w|endif\b|pragma \w|undef \w|import [<\"]|if (?:defined|!|\d|\w+ ?[=<>&|(]))"),
    "stream": Statement("", "<", r"\b(?:std::)?c(?:out|err) ?<< ?\S|\bstd::\w+(?:<[^>\n]{0,60}>)?(?: [&*]?\w+ ?[={(;]|[({])", "std:: cout cerr"),
    "template": Statement("template", "<", r"\btemplate ?<[^>\n]{1,80}>"),
    "increment": Statement("", "+", r"(?<![cCg])\+\+ ?[;)]|; ?\+\+\w|\b\w+(?:\[\w+\]|\.\w+)? \+= \S+[;:]?$", "++ +="),
    "closed calls": Statement("", "(;", r"^[\w.$>:*&\[\]-]{1,80}\(.{0,200}\);(?:$|\s*//|\s*[\w}])"),
    "assigned value;": Statement("", "=;", r"^(?:[\w<>\[\]:*&?]{1,40} ){0,3}[*&$]?[\w.>\[\]-]{1,60} ?[-+*/|&%^]?= ?[^=;\n][^;\n]{0,160};(?:$|\s|\w)|[\w\])] [-+*/|&%^]?= [^=;\n][^;\n.]{0,100};(?:$|\s*\}|\s*[\w.]+ ?[-+*/]?[=(])"),
    "short declaration": Statement("", ":=", r"\b\w+(?:, \w+){0,3} := (?:\w+[.(\[{]|[\"&*\[<]|range\b|-?\d)", ":="),
    "err": Statement("err", "!={", r"\bif (?:[^{}\n]{0,60}; ?)?err != nil \{"),
    "defer": Statement("defer go", "(", r"^(?:defer|go) [\w.]+\(.*\)(?: ?\{|\(\))?$|^(?:defer|go) func\("),
    "channel": Statement("make chan", "(", r"\bmake\((?:chan|map\[|\[\])"),
    "macro": Statement("", "!(", r"\b(?:println|print|eprintln|format|vec|write|writeln|panic|assert|assert_eq|assert_ne|matches|todo|debug_assert|macro_rules)![(\[{ ][^)\s]", "!( ![ !{"),
    "attribute": Statement("", "#[", r"^#!?\[[a-z][\w:]*(?:\([^\]\n]{0,120}\)| = \"[^\"\n]*\")?\]$"),
    "match arm": Statement("", "=>", r"\b(?:Some|Ok|Err|None|_)(?:\(\w+\))? => ?\S", "Some Ok Err None _"),
    # Ruby, Lua, Elixir, Kotlin, Swift
    "block parameter": Statement("", "|", r"(?:\{|\bdo) ?\|[\w, ()*&]{1,40}\|"),
    "def end": Statement("end", "", r"\b(?:def|function) ?[^\n]{2,160}[^,.:!? ] end$|\b(?:if|unless|while|until|case|for|begin|do|then) [^\n]{2,160}[;)\]}\"'\d] end$|\bthen (?:return|puts|print) [\w.]+ end$"),
    "method head": Statement("def", "(", r"^def (?:self\.)?\w+[?!]?\([^()\n]{0,120}\)$"),
    "block head": Statement("do", "", r"^\w+[ (][\"'][^\"'\n]{0,100}[\"'][^\n]{0,40} do$"),
    "attr": Statement("attr_accessor attr_reader attr_writer", ":", r"\battr_(?:accessor|reader|writer) :\w"),
    "require": Statement("require require_relative include load library source", "", r"^require(?:_relative)?[ (][\"'][\w./-]+[\"']\)?$|^library\(\w+\)$|^local \w+ = require"),
    "return unless": Statement("return next break raise", "", r"^(?:return|next|break|raise)(?: [\w.\"':@]+)? (?:unless|if) (?:not )?[\w.@\[\]:]{0,40}(?:\w\?(?: |$)|[=!<>]=|\w\.\w+$| && | \|\| |\()|^(?:return|raise|next)(?: [\w.:\"', ]{1,40})? unless \w"),
    "conditional assignment": Statement("", "=", r"(?:^|[;{] ?)[@$]{0,2}\w+(?:\.\w+|\[[^\]\n]{0,30}\])? ?(?:\|\||&&|\?\?)= ?\S|^@{1,2}\w+ = \S", "||= &&= ??= @"),
    "ivar": Statement("", "@=", r"^@\w+(?:, @\w+)* = \S"),
    "symbol to proc": Statement("", "&:(", r"\(&:\w+[?!]?\)"),
    "local": Statement("local", "", r"\blocal (?:function \w|\w+(?:, ?\w+){0,4} ?= ?\S)"),
    "pairs": Statement("ipairs pairs", "(", r"\bin i?pairs\("),
    "then": Statement("then", "", r"\b(?:if|elseif|elif) [^\n]{1,80}(?:[=~!<>]=|[<>]| nil\b) ?[^\n,.]{0,30} then\b"),
    "do:": Statement("do", ":", r"\b(?:defp?|if|unless|for|with) [^\n]{1,120}, do: \S"),
    "def do": Statement("def defp defmodule defmacro defimpl defprotocol describe test", "", r"^(?:defp?|defmodule|defmacrop?|defimpl|defprotocol|test|describe) [^\n]{1,120} do$"),
    "pipe": Statement("", "|>", r"\|> ?[A-Za-z_]\w*[.(:!?\w]|%>%"),
    "tagged tuple": Statement("", "{:", r"\{:\w+, [^{}\n]{1,60}\} (?:=|->|<-)|(?<!\w)%\{\w+: [^{}\n]{1,60}\}|%\w+\{[^{}\n]{0,60}\}", "{: %"),
    "capture": Statement("", "&(", r"&\(?&1|&\w[\w.!?]*/\d\b", "&1 /"),
    "closure": Statement("", "{", r"\{ ?(?:it\.\w|\$0\b|_ in\b|\w+(?:, \w+)? (?:->|in) \S)"),
    "when": Statement("when", "({", r"\bwhen ?\([\w.]+\) ?\{"),
    # PHP, Perl, shell, PowerShell
    "php": Statement("", "<?", r"<\?(?:php\b|=)"),
    "dollar": Statement("", "$", r"(?<![\w$\\])[$@%]\w+(?:->\w+|\[[^\]\n]{0,40}\]|\{[^}\n]{0,40}\}|::\w+)*(?: ?[-+*/.|?]{0,2}= ?[^\s=]|->\w+\(?|\[[\"'$])|\bmy [$@%(]|\$this->|@_\b"),
    "echo": Statement("echo print printf puts", "", r"\becho (?:-[en]+ )?(?:\"[^\"\n]{0,160}\"|'[^'\n]{0,160}'|\$[\w{(])|^puts? [\"'\w].{0,120}[\"')\]\w]$(?<![a-z] [a-z]{7})|\bprint(?:f|ln)?\([\"'f][^\n]{0,160}\)"),
    "substitution": Statement("", "$(", r"\$\((?:\(|[a-z][\w./-]*(?: [^()\n]{1,120}|)\))"),
    "parameter": Statement("", "$", r"\$\{\w+(?:\}|[%#:/^,@-])|\"\$[\w@*#?{][^\"\n]{0,80}\"|\$[@#*]|\$\d\b(?!\d|[.,]\d)", "${ \"$ $@ $# $* $1 $2 $3 $4 $5 $6 $7 $8 $9 $0 $?"),
    "do done": Statement("do then done fi esac", ";", r"\b(?:for \w+ in [^;\n]{1,80}|while [^;\n]{1,80}|until [^;\n]{1,80}); ?do\b|(?:\]|\bif ! ?[^;\n]{1,60}|\)); ?then\b|; ?(?:fi|esac)\b|; ?done(?:$| ?[<>|;&])"),
    "test": Statement("", "[", r"\b(?:if|while|elif|until) (?:! )?\[{1,2} [^\n]{1,100} \]{1,2}|^\[{1,2} [!\"$-][^\n]{1,100} \]{1,2} (?:&&|\|\|)"),
    "export variable": Statement("export alias set setenv declare readonly", "=", r"(?:^|[;&|{] ?)(?:export|alias|declare|readonly|local|typeset) (?:-\w+ )?\w+=\S"),
    "redirection": Statement("", ">", r"\d?>&\d|&>>? ?\S|[12]?>>? ?/dev/null|\w \d?>>? ?[\w./$\"-]+\.\w{2,4}(?: |$)(?=.{0,20}$)", ">& &> /dev/null >>"),
    "pipeline": Statement(
        "grep awk sed sort uniq xargs head tail tee wc cut jq less tr cat bash sh",
        "|",
        r"\b[a-z][\w.-]* ?[^|\n]{0,160}\| ?(?:sudo )?(?:grep|awk|sed|sort|uniq|xargs|head|tail|tee|wc|cut|jq|less|tr|cat|bash|sh|python3?)\b(?= -| '| \"| ?\||$| \d| \w+ ?\||\n| [\w./]+$)",
    ),
    "cmdlet": Statement("", "-", r"\b(?:Get|Set|New|Remove|Add|Write|Where|ForEach|Select|Import|Export|Invoke|Start|Stop|Test|Out|Sort|Join|Split|Copy|Move|Install|Enable|Disable|Update|Read|Clear|Measure|ConvertTo|ConvertFrom|Format|Register)-[A-Z]\w+ (?:-[A-Z]\w* ?\S|[$@\"'{|])|\| ?(?:Where|ForEach|Select|Sort|Out|Measure|Format)-[A-Z]\w+", "Get- Set- New- Remove- Add- Write- Where- ForEach- Select- Import- Export- Invoke- Start- Stop- Test- Out- Sort- Join- Split- Copy- Move- Install- Enable- Disable- Update- Read- Clear- Measure- ConvertTo- ConvertFrom- Format- Register-"),
    "powershell": Statement("", "$", r"\$_\b|\$(?:env:\w+|PSScriptRoot)\b|= \$(?:null|true|false)\b|^\[\w+\] ?\$\w|\| Should -\w|\bparam ?\(\s*[\[$]|\$\w+ -(?:eq|ne|gt|lt|ge|le|match|like|contains|in|is)\b"),
    # SQL in both cases
    "select": Statement(
        "select SELECT Select",
        "",
        rf"(?i)\bselect (?:distinct )?(?:(?:{_SQL_COLUMN}, ?){{1,12}}{_SQL_COLUMN}|\*|\w+\.\*|(?:count|sum|max|min|avg)\([^()\n]{{0,40}}\)(?: as \w+)?) from [\w.\"]+"
        rf"|\bselect (?:distinct )?{_SQL_COLUMN} from [\w.\"]+(?: (?:as )?\w{{1,3}})?(?:;| where {_SQL_TEST}| order by \w| group by \w| (?:left |inner |right |outer |cross )?join \w+ (?:\w{{1,12}} )?(?:on|using)\b| limit \d)",
    ),
    "insert": Statement("insert INSERT Insert", "", r"(?i)\binsert (?:or \w+ )?into [\w.\"`]+ ?(?:\([\w, \"`]{1,200}\)|values\b|select\b|default values)"),
    "update": Statement("update UPDATE Update", "=", r"(?i)\bupdate [\w.\"`]+ set [\w.\"`]+ ?= ?\S"),
    "delete": Statement("delete DELETE Delete", "", rf"(?i)\bdelete from [\w.\"`]+(?: where {_SQL_TEST}|;)|\bDELETE FROM \w"),
    "create": Statement(
        "create CREATE alter ALTER drop DROP truncate TRUNCATE Create Alter Drop",
        "",
        r"(?i)\b(?:create (?:or replace )?(?:(?:temp|temporary|unique|global|materialized) ){0,2}(?:index (?:if not exists )?[\w.\"`]+ on [\w.\"`]+ ?[(;u]|(?:table|view|trigger|function|procedure|sequence|schema|type|extension) (?:if not exists )?[\w.\"`]+ ?(?:\((?:\s*[\w\"`]+ \w|$|\))|as (?:select|\$|enum)|;$))|"
        r"alter table [\w.\"`]+ (?:add|drop|alter|rename|modify|set|enable|disable) \w|drop (?:table|index|view|function|trigger|schema|database|sequence) (?:if exists )?[\w.\"`]+(?:;| cascade))|\b(?:CREATE|ALTER|DROP|TRUNCATE) (?:UNIQUE )?(?:TABLE|INDEX|VIEW|DATABASE) \w+;?$",
    ),
    "sql clause": Statement("GROUP ORDER JOIN WHERE VALUES HAVING LIMIT", "", r"\b(?:GROUP BY|ORDER BY) \w[\w., ]{0,60}(?: DESC| ASC|;|$)|\bWHERE \w[\w.]* ?(?:[=<>]|IN ?\(|LIKE ')|\b(?:LEFT|INNER|RIGHT|CROSS) JOIN \w|\bVALUES ?\("),
    # Stylesheets, markup, data
    "rule": Statement("", "{:", r"(?:^|[\s,;}])[@.#*:\w\[\]=\"'()>+~-][\w\s.#*:\[\]=\"'()>+~,-]{0,100}\{\s*(?:--)?[a-z-]{2,40}\s*:\s*[^{};:\n][^{};\n]{0,80}[;}]"),
    "at rule": Statement("media import font keyframes include mixin", "@", r"@(?:media|font-face|keyframes|supports|include|mixin|import|charset|apply)\b[^\n{};]{0,100}[{;]"),
    "element": Statement("", "<>/", r"<([A-Za-z][\w:.-]{0,40})(?:\s[^<>\n]{0,200})?>[^\n]{0,400}</\1>"),
    "tag with attributes": Statement("", "<=>", r"<[A-Za-z][\w:.-]{0,40}(?:\s+[\w:@.-]{1,40}=(?:\"[^\"\n]{0,200}\"|'[^'\n]{0,200}'|\{[^{}\n]{0,80}\}|\w+)){1,12}[^<>\n]{0,80}>"),
    "doctype": Statement("", "<", r"<!DOCTYPE \w|<\?xml |<!\[CDATA\["),
    "object": Statement("", "{:", r"\{ ?[\"'][\w $.@/-]{1,60}[\"'] ?: ?[^{}\n]{1,80}[,{\[] ?[\"'][\w $.@/-]{1,60}[\"'] ?:|^\{ ?[\"'][\w $.@/-]{1,60}[\"'] ?: ?[^\n]{1,200}\}[,;]?$"),
    "object literal": Statement("", "{:", r"\{ ?\w+ ?: ?(?:[\"'\[{]|-?\d+[,}]|true\b|false\b|null\b|\w+[.(]|\w+, \w+ ?:)[^{}\n]{0,100}\}?"),
    "dockerfile": Statement("FROM RUN COPY ADD CMD ENTRYPOINT WORKDIR ENV EXPOSE ARG ONBUILD SHELL HEALTHCHECK VOLUME", "", r"^(?:(?:ONBUILD )?(?:FROM [\w./-]+[:@][\w.@:-]+(?: AS \w+)?$|RUN (?:--\S+ )?[a-z][\w./-]* \S|COPY (?:--\S+ )?[\w./*\[\"$-]+ [\w./\"\]$-]+$|ADD \S+ [./]\S*$|(?:CMD|ENTRYPOINT|SHELL|VOLUME|RUN) ?\[|WORKDIR [/$]\S*$|ENV \w+[= ]\S+$|EXPOSE \d+|ARG \w+(?:=\S+)?$))"),
    "make": Statement("", "$(", r"\$\([A-Z][A-Z0-9_]*\)|\$[<^]|\$@(?:\s|$)"),
    "block header": Statement("resource data variable provider module output locals terraform backend", "{", r"^(?:resource|data|variable|provider|module|output|locals|terraform|backend)(?: \"[\w-]+\"){0,2} \{"),
    # R, Haskell, OCaml, Erlang, Clojure
    "arrow assignment": Statement("", "<-", r"(?:^|[;({] ?)[A-Za-z.][\w.$\[\]\"']{0,40} <- \S"),
    "signature": Statement("", "::", r"^[\w']+ :: (?:\S.*->|[A-Z(\[])"),
    "data type": Statement("data newtype", "=", r"^(?:data|newtype) [A-Z]\w*(?: \w+){0,4} = "),
    "equation": Statement("", "=", r"^[a-z]\w*(?: \w+){0,4} = (?:if .{1,80} then |case |do$|let |.{1,80} \$ |.{0,60}<\$>|\w+ \. \w)"),
    "monad": Statement("", ">", r" (?:>>=|<\$>|<\*>|>>>|=<<) \S|\bmapM_? ", ">>= <$> <*> =<< mapM >>>"),
    "let in": Statement("let", "=", r"\blet (?:rec )?[\w' ]{1,60} = .{1,120}\bin\b|^let (?:rec )?\w+ (?:[\w']+ ){1,6}= |^let (?:rec )?\w+ = (?:fun|function)\b"),
    "clojure": Statement("", "(", r"^\((?:defn?-?|defmacro|ns) [\w:*-]|^\((?:let|fn|if|when|cond|require|println) [\[(\"':]"),
    "whole call": Statement("", "()", r"^[\w.:$]{2,60}\((?=[^\n]*[\"'=\[{])(?:[^()\n]|\([^()\n]{0,60}\)){1,200}\)[;,]?$"),
    "subscript assignment": Statement("", "[]=", r"^[\w.]{1,40}\[[^\]\n]{1,40}\] ?[-+*/]?= ?[^\s=]", "] = ]= +="),
    "several names": Statement("", "=,", r"^[a-z_]\w*(?:, [a-z_]\w*){1,4} = [\w(\[\"']"),
    "definition head": Statement("", "(", r"^(?:[\w:<>*&]{1,40} ){1,3}[*&]{0,2}(?:\w+::)?~?\w+\((?:(?:const |struct |unsigned )?[\w:<>]{1,40}[ *&]+\w+(?:, ?|(?=\)))){1,8}\)$|^\w+::~?\w+\([^()\n]{0,120}\)$"),
    "command chain": Statement("", "&", r"(?:^|: |\$ )(?:sudo )?[a-z.][\w./-]* [^&\n]{1,100} && (?:sudo )?[a-z.][\w./-]+ ?\S"),
    "prompt": Statement("", "$", r"^\$ (?:sudo )?[a-z.~][\w./-]*(?: \S|$)"),
    "module attribute": Statement("spec doc moduledoc type impl behaviour opaque callback", "@", r"^@(?:spec|doc|moduledoc|type|impl|behaviour|callback|opaque) \S"),
    "struct tag": Statement("json protobuf yaml xml db", ":", r"`(?:json|protobuf|yaml|xml|db):\""),
    "with select": Statement("with WITH", "(", r"(?i)\bwith \w+ as \(\s*select\b"),
    "chained calls": Statement("", "(.", r"\w\([^()\n]{0,60}\)\.\w+\([^()\n]{0,80}\)(?:\.|;|\)|$)|\)\.\w+\([^()\n]{1,80}\)\.\w+\(", ")."),
}  # fmt: skip

_WORD = re.compile(r"\w+")
_TRIGGERS: Final = frozenset(word for statement in STATEMENTS.values() for word in statement.words.split())
_CHARACTERS: Final = frozenset(char for statement in STATEMENTS.values() for char in statement.characters)


@lru_cache(maxsize=1024)  # a line that is not code is searched twice: for its points, and as a sentence
def find_statement(line: str) -> tuple[int, int] | None:
    """Return start and end of the first statement in a line."""
    best: tuple[int, int] | None = None
    for pattern, pieces in _possible(_TRIGGERS.intersection(_WORD.findall(line)), _CHARACTERS.intersection(line)):
        if pieces and not any(piece in line for piece in pieces):
            continue
        match = _compiled(pattern).search(line)
        if match and (best is None or match.start() < best[0]):
            best = match.span()
    return best


@lru_cache(maxsize=2048)
def _possible(words: frozenset[str], characters: frozenset[str]) -> tuple[tuple[str, list[str]], ...]:
    """Return the patterns of a line that has these words and characters, with the pieces that each needs."""
    return tuple(
        (statement.pattern, statement.pieces.split())
        for statement in STATEMENTS.values()
        if characters.issuperset(statement.characters)
        and (not statement.words or not words.isdisjoint(statement.words.split()))
    )


@cache  # decision 39: a pattern is compiled for the first line that it could match
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
