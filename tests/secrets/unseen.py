"""A second corpus, in parts that share no surroundings: figures on text that no rule was written for.

`FIRST` was measured before the rules were changed. Each later part was measured once with the rules as they were then,
and only after that used to change them: its figure on unseen text is that of its first run, in docs/secrets.md. Like
the other corpus it imports nothing of the detector, and has no literal that looks like a secret.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from tests.secrets.kinds import ALNUM, BASE64, HEX, LETTERS, LOWER, UPPER, URLSAFE, draw

FIRST, SECOND, THIRD, FOURTH, FIFTH, SIXTH = PARTS = 1, 2, 3, 4, 5, 6
OPEN, CLOSE = "\x01", "\x02"
"""Marks around each part of a secret while a text is made."""

Maker = Callable[[Random], str]


class UnseenSecret(NamedTuple):
    """A text with a secret, which may consist of several parts."""

    family: str
    kind: str
    place: str
    text: str
    parts: tuple[str, ...]


def _secret(value: str) -> str:
    return f"{OPEN}{value}{CLOSE}"


def _make(*parts: str | tuple[str, int]) -> Maker:
    """Return a generator of a whole secret: texts are literal, pairs of alphabet and size are random."""
    return lambda rng: _secret("".join(part if isinstance(part, str) else draw(rng, *part) for part in parts))


def _hexes(rng: Random, *sizes: int) -> str:
    return "-".join(draw(rng, HEX, size) for size in sizes)


def draw_uuid(rng: Random) -> str:
    """Return a random UUID."""
    return _hexes(rng, 8, 4, 4, 4, 12)


def _word(rng: Random) -> str:
    return rng.choice(["falcon", "Orchid", "Bramble", "saturn", "Tundra", "kettle", "Mirage", "copper"])


def _password(rng: Random) -> str:
    """Return a password as people and generators make them."""
    return rng.choice(
        [
            f"{_word(rng)}{rng.choice('!%^*-_')}{rng.randrange(100, 9999)}",
            f"{_word(rng)}{_word(rng)}{rng.randrange(10, 99)}",
            draw(rng, ALNUM, 12) + str(rng.randrange(10)),
            draw(rng, LOWER, 15) + str(rng.randrange(10)),
            draw(rng, ALNUM + "!%^*-_", 18) + str(rng.randrange(10)),
        ]
    )


def _jwt(rng: Random, size: int = 60) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()

    head = {"typ": "JWT", "alg": rng.choice(["RS256", "HS512", "EdDSA"]), "kid": draw(rng, HEX, 8)}
    return f"{part(head)}.{part({'sub': draw(rng, ALNUM, size), 'aud': 'billing'})}.{draw(rng, URLSAFE, 86)}"


# --- keys with a prefix of their vendor ----------------------------------------------------------------------------
VENDORS: dict[int, dict[str, Maker]] = {
    FIRST: {
        "posthog": _make("ph" + "x_", (ALNUM, 43)),
        "crates.io": _make("ci" + "o", (ALNUM, 32)),
        "dependency-track": _make("od" + "t_", (ALNUM, 32)),
        "zoho": _make("1000" + ".", (HEX, 32), ".", (HEX, 32)),
        "voiceflow": _make("V" + "F.DM.", (HEX, 24), ".", (ALNUM, 16)),
        "mongodb-atlas": _make("mdb_sa" + "_sk_", (URLSAFE, 6), (ALNUM, 34)),
        "paystack": _make("sk" + "_live_", (HEX, 40)),
        "razorpay": _make("rzp" + "_live_", (ALNUM, 14)),
        "wakatime": lambda rng: _secret("wak" + f"a_{draw_uuid(rng)}"),
        "apify": _make("apify" + "_api_", (ALNUM, 36)),
        "firecrawl": _make("f" + "c-", (HEX, 32)),
        "llamaindex": _make("ll" + "x-", (ALNUM, 48)),
        "jina": _make("jin" + "a_", (HEX, 32), (ALNUM, 28)),
        "together": _make("tgp" + "_v1_", (URLSAFE, 43)),
        "openai-short": lambda rng: _secret("s" + "k-" + draw(rng, ALNUM, rng.choice([12, 16, 20, 24, 28]))),
        "firebase-messaging": _make("AAAA", (URLSAFE, 7), ":APA" + "91b", (URLSAFE, 134)),
        "midtrans": _make("Mid-" + "server-", (URLSAFE, 24)),
        "braintree": _make("access_token" + "$production$", (LOWER, 16), "$", (HEX, 32)),
        "rootly": _make("root" + "ly_", (HEX, 64)),
        "samsara": _make("samsara" + "_api_", (ALNUM, 30)),
        "pinterest": _make("pin" + "a_", (LOWER, 64)),
        "maxmind": _make((ALNUM, 6), "_", (ALNUM, 29), "_mm" + "k"),
        "azure-devops": _make((ALNUM, 76), "AZ" + "DO", (ALNUM, 4)),
        "twitter-bearer": _make("A" * 22, (ALNUM, 40), "%2F", (ALNUM, 40)),
        "ghost": lambda rng: "GHOST_ADMIN_API_KEY=" + _secret(f"{draw(rng, HEX, 24)}:{draw(rng, HEX, 64)}"),
    },
    SECOND: {
        "ionic": _make("io" + "n_", (LOWER, 42)),
        "telnyx": _make("KE" + "Y", (UPPER, 32), "_", (ALNUM, 22)),
        "stackhawk": _make("haw" + "k.", (URLSAFE, 20), ".", (URLSAFE, 20)),
        "pagarme": _make("ak" + "_live_", (ALNUM, 30)),
        "clickup": _make("p" + "k_", ("0123456789", 8), "_", (UPPER, 32)),
        "xata": _make("xa" + "u_", (ALNUM, 43)),
        "e2b": _make("e2" + "b_", (HEX, 40)),
        "inngest": _make("signkey" + "-prod-", (HEX, 64)),
        "trigger.dev": _make("tr" + "_prod_", (ALNUM, 20)),
        "paddle": _make("pdl_live" + "_apikey_", (LOWER, 26), "_", (ALNUM, 22), "_", (ALNUM, 3)),
        "browserbase": _make("bb" + "_live_", (URLSAFE, 27)),
        "snyk-pat": lambda rng: _secret("snyk" + f"_uat.{draw(rng, HEX, 8)}.{draw(rng, URLSAFE, 60)}"),
        "launchdarkly": lambda rng: _secret("ap" + f"i-{draw_uuid(rng)}"),
        "devcycle": lambda rng: _secret("dvc_server" + f"_{draw_uuid(rng).replace('-', '_')}_{draw(rng, HEX, 6)}"),
        "persona": lambda rng: _secret("persona" + f"_production_{draw_uuid(rng)}"),
        "mercury": _make("secret-token:" + "mercury_production_", (ALNUM, 32)),
        "yandex-oauth": _make("y" + "0_Ag", (URLSAFE, 56)),
        "yandex-iam": _make("t" + "1.9eu", (URLSAFE, 120), ".", (URLSAFE, 86)),
        "openai-shorter": lambda rng: _secret("s" + "k-" + draw(rng, ALNUM, rng.choice([13, 18, 22, 26, 30]))),
        "helicone": _make("sk-heli" + "cone-", (LOWER, 7), "-", (LOWER, 7), "-", (LOWER, 7)),
        "thunderstore": _make("ts" + "s_", (ALNUM, 32)),
        "asana": lambda rng: _secret(f"1/{rng.randrange(10**15, 10**16)}:" + draw(rng, HEX, 32)),
        "vault-legacy": _make("s" + ".", (ALNUM, 24)),
        "dotenv-vault": lambda rng: (
            f"dotenv://:{_secret('key' + '_' + draw(rng, HEX, 64))}@dotenv.org/vault/.env.vault"
        ),
        "twitch-irc": _make("oau" + "th:", (LOWER, 30)),
    },
    THIRD: {
        "harness": _make("pa" + "t.", (URLSAFE, 22), ".", (ALNUM, 24), ".", (ALNUM, 20)),
        "octopus": _make("AP" + "I-", (UPPER, 26)),
        "contentful": _make("CFP" + "AT-", (URLSAFE, 43)),
        "pinecone": _make("pcs" + "k_", (ALNUM, 6), "_", (ALNUM, 62)),
        "fireworks": _make("f" + "w_", (ALNUM, 24)),
        "cerebras": _make("cs" + "k-", (LOWER, 48)),
        "nvidia": _make("nva" + "pi-", (URLSAFE, 64)),
        "infracost": _make("ic" + "o-", (ALNUM, 32)),
        "hubspot": lambda rng: _secret("pat-" + f"na1-{draw_uuid(rng)}"),
        "deno": _make("dd" + "p_", (ALNUM, 36)),
        "wandb": _make("wandb" + "_v1_", (ALNUM, 64)),
        "tavily": _make("tvl" + "y-dev-", (ALNUM, 32)),
        "duffel": _make("duffel" + "_live_", (URLSAFE, 43)),
        "clojars": _make("CLO" + "JARS_", (HEX, 60)),
        "alibaba": _make("LT" + "AI5t", (ALNUM, 20)),
        "sourcegraph": lambda rng: _secret("sg" + f"p_{draw(rng, HEX, 16)}_{draw(rng, HEX, 40)}"),
        "openshift": _make("sha2" + "56~", (URLSAFE, 43)),
        "settlemint": _make("sm" + "_aat_", (ALNUM, 16)),
        "typeform": _make("tf" + "p_", (URLSAFE, 44), "_", (ALNUM, 14)),
        "plaid": lambda rng: _secret("access-" + f"production-{draw_uuid(rng)}"),
        "adafruit": _make("ai" + "o_", (ALNUM, 28)),
        "gitlab-runner": _make("gl" + "rt-t1_", (URLSAFE, 27)),
        "frameio": _make("fi" + "o-u-", (URLSAFE, 64)),
        "facebook": _make("EA" + "AC", (ALNUM, 160)),
        "langfuse": lambda rng: _secret("sk-l" + f"f-{draw_uuid(rng)}"),
    },
    FOURTH: {
        "github-app": _make("gh" + "s_", (ALNUM, 36)),
        "gitlab-deploy": _make("gl" + "dt-", (ALNUM, 20)),
        "npm": _make("np" + "m_", (ALNUM, 36)),
        "stripe-restricted": _make("rk" + "_live_", (ALNUM, 99)),
        "anthropic": _make("sk-a" + "nt-api03-", (URLSAFE, 93), "AA"),
        "openai-brief": lambda rng: _secret("s" + "k-" + draw(rng, ALNUM, rng.choice([14, 17, 21, 25, 29]))),
        "aws-temporary": _make("AS" + "IA", (UPPER[:26] + "234567", 16)),
        "google": _make("AI" + "za", (URLSAFE, 35)),
        "slack-app": lambda rng: _secret(
            "xap" + f"p-1-A{draw(rng, UPPER, 10)}-{rng.randrange(10**12)}-{draw(rng, HEX, 64)}"
        ),
        "vault": _make("hv" + "s.", (URLSAFE, 95)),
        "mapbox": lambda rng: _secret("s" + f"k.eyJ{draw(rng, ALNUM, 60)}.{draw(rng, URLSAFE, 22)}"),
        "notion": _make("nt" + "n_", (ALNUM, 46)),
        "linear-oauth": _make("lin" + "_oauth_", (HEX, 64)),
        "replicate": _make("r" + "8_", (ALNUM, 37)),
        "rubygems": _make("ruby" + "gems_", (HEX, 48)),
        "shopify": _make("shp" + "ss_", (HEX, 32)),
        "grafana-cloud": _make("gl" + "c_", (BASE64, 80)),
        "databricks": _make("da" + "pi", (HEX, 32), "-2"),
        "telegram": _make((("123456789"), 10), ":A" + "A", (URLSAFE, 33)),
        "azure-secret": _make((ALNUM, 3), "8Q" + "~", (ALNUM, 34)),
    },
    FIFTH: {
        "github-refresh": _make("gh" + "r_", (ALNUM, 76)),
        "gitlab": _make("gl" + "pat-", (URLSAFE, 20)),
        "pypi": _make("py" + "pi-AgEIcHlwaS5vcmc", (URLSAFE, 160)),
        "stripe": _make("sk" + "_test_", (ALNUM, 24)),
        "openai-project": _make("sk-p" + "roj-", (URLSAFE, 156)),
        "openai-small": lambda rng: _secret("s" + "k-" + draw(rng, ALNUM, rng.choice([12, 15, 19, 23, 27]))),
        "aws": _make("AK" + "IA", (UPPER[:26] + "234567", 16)),
        "slack-bot": lambda rng: _secret("xox" + f"b-{rng.randrange(10**11, 10**12)}-{draw(rng, ALNUM, 24)}"),
        "huggingface": _make("h" + "f_", (LETTERS, 34)),
        "digitalocean": _make("do" + "p_v1_", (HEX, 64)),
        "sendgrid": _make("S" + "G.", (URLSAFE, 22), ".", (URLSAFE, 43)),
        "supabase": _make("sb" + "p_", (HEX, 40)),
        "groq": _make("gs" + "k_", (ALNUM, 52)),
        "doppler": _make("dp." + "pt.", (ALNUM, 43)),
        "terraform": _make((ALNUM, 14), ".atlas" + "v1.", (URLSAFE, 67)),
        "sentry": _make("sntr" + "yu_", (HEX, 64)),
        "postman": lambda rng: _secret("PM" + f"AK-{draw(rng, HEX, 24)}-{draw(rng, HEX, 34)}"),
        "discord": _make("M", (ALNUM, 23), ".", (URLSAFE, 6), ".", (URLSAFE, 38)),
        "tailscale": _make("ts" + "key-auth-", (ALNUM, 17), "-", (ALNUM, 32)),
        "mailgun": _make("ke" + "y-", (HEX, 32)),
    },
}


VENDORS[SIXTH] = {kind: make for part in VENDORS.values() for kind, make in list(part.items())[::5]}


# --- values that only their name accuses ---------------------------------------------------------------------------
NAMES: dict[int, tuple[str, ...]] = {
    FIRST: (
        "BEEHIIV_API_KEY", "chartmogul_token", "ALPACA_SECRET_KEY", "intercomAccessToken", "MEILI_MASTER_KEY",
        "redis.password", "smtp_pass", "JWT_SIGNING_SECRET", "session-secret", "encryptionKey", "LDAP_BIND_PASSWORD",
        "keystore.password", "X-Api-Key", "ipstack_access_key", "PDF_LAYER_KEY", "coveralls_repo_token",
    ),
    SECOND: (
        "NEXTAUTH_SECRET", "SECRET_KEY_BASE", "MINIO_ROOT_PASSWORD", "RABBITMQ_DEFAULT_PASS",
        "spring.datasource.password", "ansible_become_password", "KEYCLOAK_ADMIN_PASSWORD", "private_token",
        "cookieSecret", "webhookSecret", "ApiKey", "x-functions-key", "Ocp-Apim-Subscription-Key", "VIRUSTOTAL_KEY",
        "statuscake-api-token", "truststorePassword",
    ),
    THIRD: (
        "AUTH0_CLIENT_SECRET", "zendesk_api_token", "SUPERSET_SECRET_KEY", "mailjetApiSecret", "BITRISE_ACCESS_TOKEN",
        "hibernate.connection.password", "PROXY_PASSWORD", "tls_key_passphrase", "DJANGO_SECRET", "scw_secret_key",
        "Grafana-Admin-Password", "vapidPrivateKey", "CODECOV_TOKEN", "apiSecret", "rds_master_password", "TWENTY_KEY",
    ),
    FOURTH: (
        "SENTRY_AUTH_TOKEN", "okta_client_secret", "FLASK_SECRET_KEY", "wiseApiToken", "NOMAD_TOKEN", "mqtt.password",
        "ROOT_PASSWORD", "signing_key", "oauth2ClientSecret", "HCLOUD_TOKEN", "PLAUSIBLE_SECRET", "user-password",
        "appSecret", "ES_PASSWORD", "OPENCAGE_KEY", "bind_password",
    ),
    FIFTH: (
        "BUILDKITE_AGENT_TOKEN", "paypalClientSecret", "EXPRESS_SESSION_SECRET", "lokalise_api_token",
        "NGROK_AUTHTOKEN", "ldap.manager.password", "WIFI_PASSWORD", "license_key", "zoomJwtSecret",
        "SCALEWAY_SECRET_KEY", "ABSTRACT_API_KEY", "service-account-password",
        "consumerSecret", "IMAP_PASSWORD", "GEOAPIFY_KEY", "sudo_password",
    ),
    SIXTH: (
        "ARGOCD_AUTH_TOKEN", "squareClientSecret", "RAILS_MASTER_KEY", "airbrake_api_key", "TEMPORAL_TOKEN",
        "kafka.sasl.password", "ADMIN_PASSWORD", "cookie_signing_key", "samlIdpSecret", "OVH_CONSUMER_KEY",
        "JIRA_API_TOKEN", "vpn-password", "masterSecret", "PGADMIN_DEFAULT_PASSWORD", "MAPTILER_KEY", "su_password",
    ),
}  # fmt: skip


def _named_value(rng: Random, name: str) -> str:
    if "pass" in name.lower():
        return _password(rng)
    alphabet, size = rng.choice([(HEX, 32), (HEX, 40), (HEX, 64), (ALNUM, 24), (ALNUM, 32), (LOWER, 30), (URLSAFE, 40)])
    return draw(rng, alphabet, size)


PLACES: dict[int, dict[str, str]] = {
    FIRST: {
        "dotenv": "# local settings\nPORT=8080\n<n>=<v>\nDEBUG=0\n",
        "compose": "services:\n  web:\n    environment:\n      <n>: <v>\n      TZ: UTC\n",
        "json": '{\n  "env": {\n    "region": "eu-west-1",\n    "<n>": "<v>"\n  }\n}',
        "prose": "The job broke because <n> is <v>, which was replaced on Monday.",
        "shell": "set -eu\nexport <n>='<v>'\n./deploy.sh --region eu\n",
        "log": '2031-02-03T04:05:06Z level=warn msg="refused" <n>=<v> status=403',
        "go": 'cfg := map[string]string{\n\t"<n>": "<v>",\n}\n',
        "diff": "--- a/app.cfg\n+++ b/app.cfg\n@@ -1 +1 @@\n-<n> = none\n+<n> = <v>\n",
        "fence": "Set it first:\n\n```\n<n>: <v>\n```\n",
        "ini": "[client]\nhost = db.internal\n<n> = <v>\n",
    },
    SECOND: {
        "actions": "jobs:\n  build:\n    env:\n      <n>: '<v>'\n    steps: []\n",
        "terraform": 'variable "x" {\n  default = {\n    "<n>" = "<v>"\n  }\n}\n',
        "properties": "server.port=8443\n<n>=<v>\nlogging.level=INFO\n",
        "ruby": "Client.new('<n>' => '<v>', timeout: 5)\n",
        "dockerfile": 'FROM alpine:3\nENV <n>=<v>\nCMD ["run"]\n',
        "toml": '[service]\nname = "billing"\n"<n>" = "<v>"\n',
        "xml": '<config>\n  <add key="<n>" value="<v>" />\n</config>\n',
        "chat": "> can you try again?\nsure, with <n>: <v> it works for me",
        "escaped": '{"body": "a\\n<n>=<v>\\nb"}',
        "python": 'settings = dict(region=\'eu\')\nsettings["<n>"] = "<v>"  # rotate\n',
    },
    THIRD: {
        "helm": 'image:\n  tag: v1\nauth:\n  <n>: "<v>"\n',
        "rust": 'let mut m = HashMap::new();\nm.insert("<n>", "<v>");\n',
        "java": 'props.put("<n>", "<v>");\nrun(props);\n',
        "make": "<n> := <v>\ndeploy:\n\t./deploy\n",
        "fish": "set -gx <n> <v>\n",
        "json line": '{"t": 17, "msg": "start", "<n>": "<v>", "ok": true}',
        "comment": "# TODO rotate <n>=<v> before the release\n",
        "ticket": "Steps:\n1. open the console\n2. set `<n>` to `<v>`\n3. press save",
        "flag": "docker run -e <n>=<v> -p 80:80 app",
        "table": "| setting | value |\n|---|---|\n| <n> | <v> |\n",
    },
    FOURTH: {
        "powershell": "$env:<n> = '<v>'\nStart-Service app\n",
        "batch": "@echo off\nset <n>=<v>\nrun.exe\n",
        "php": "<?php\ndefine('<n>', '<v>');\n",
        "csharp": 'builder.Configuration["<n>"] = "<v>";\n',
        "systemd": '[Service]\nEnvironment="<n>=<v>"\nExecStart=/bin/app\n',
        "pod": "env:\n- name: <n>\n  value: <v>\n",
        "html": '<input type="hidden" name="<n>" value="<v>">\n',
        "form": "POST /login\n\na=1&<n>=<v>&b=2",
        "kotlin": 'val settings = mapOf("<n>" to "<v>")\n',
        "elixir": 'config :app, %{"<n>" => "<v>"}\n',
    },
    FIFTH: {
        "plist": "<dict>\n  <key><n></key>\n  <string><v></string>\n</dict>\n",
        "lua": 'local settings = { ["<n>"] = "<v>", debug = false }\n',
        "perl": "my %s = ('<n>' => '<v>');\n",
        "flow map": "env: {TZ: UTC, <n>: <v>}\n",
        "bold": "- **<n>**: `<v>`\n- **Region**: eu\n",
        "declare": 'declare -x <n>="<v>"\ndeclare -x HOME="/root"\n',
        "cmake": 'set(<n> "<v>")\nproject(app)\n',
        "header": "GET /v1/items HTTP/1.1\nHost: api.acme.dev\n<n>: <v>\nAccept: */*\n",
        "swift": 'let options = ["<n>": "<v>"]\n',
        "minutes": "Ana asked for the credentials. Bo wrote: <n> = <v>. We moved on.",
    },
    SIXTH: {
        "tuple": "pairs = [('region', 'eu'), ('<n>', '<v>')]\n",
        "inline toml": 'env = { TZ = "UTC", <n> = "<v>" }\n',
        "inline env": "TZ=UTC <n>=<v> ./run --fast\n",
        "vim": 'let $<n> = "<v>"\n',
        "nix": '{ environment = { "<n>" = "<v>"; }; }\n',
        "rst": ":<n>: <v>\n:region: eu\n",
        "aligned": "REGION         = eu\n<n>      = <v>\n",
        "query": "see https://api.acme.dev/v1/items?page=2&<n>=<v>&sort=asc",
        "argv": '["app", "--<n>", "<v>", "--fast"]\n',
        "trace": "KeyError while reading config: {'TZ': 'UTC', '<n>': '<v>'}\n",
    },
}
"""Surroundings of one value `<v>`. The name `<n>` is a neutral one for a secret that is known by itself."""
NEUTRAL = ("VALUE", "setting", "remote", "upstream_ref", "item")


# --- structures -----------------------------------------------------------------------------------------------------
def _database_url(scheme: str, tail: str = "/main") -> Maker:
    def make(rng: Random) -> str:
        user = rng.choice(["app", "svc-report", "root", "reader", "Admin"])
        return f"{scheme}://{user}:{_secret(_password(rng))}@db-{rng.randrange(9)}.internal{tail}"

    return make


def _pem_header(label: str) -> Maker:
    return lambda rng: _secret(f"-----BEGIN {label}-----")


def _kubernetes(field: str, encode: bool) -> Maker:
    def make(rng: Random) -> str:
        value = _password(rng)
        value = base64.b64encode(value.encode()).decode() if encode else value
        name = rng.choice(["admin", "uri", "db-conn", "value", "tls.data"])
        head = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: app\ntype: Opaque\n"
        return f"{head}{field}:\n  {name}: {_secret(value)}\n"

    return make


def _kubernetes_json(rng: Random) -> str:
    value = base64.b64encode(_password(rng).encode()).decode()
    return '{"apiVersion": "v1", "kind": "Secret", "data": {"conn": "' + _secret(value) + '"}, "metadata": {}}'


def _connection(text: str, make: Callable[[Random], str] = _password) -> Maker:
    """Return a generator of a connection string: `<v>` is replaced by a password."""
    return lambda rng: text.replace("<v>", _secret(make(rng)))


def _bearer(before: str, size: int, after: str = "") -> Maker:
    return lambda rng: f"{before}{_secret(_jwt(rng, size))}{after}"


STRUCTURES: dict[int, dict[str, Maker]] = {
    FIRST: {
        **{f"url {scheme}": _database_url(scheme) for scheme in (
            "postgres", "mysql+pymysql", "mongodb+srv", "rediss", "amqps", "clickhouse+native", "cockroachdb",
        )},
        "url mssql": _database_url("mssql+pyodbc", "/main?driver=ODBC+Driver+18"),
        "jdbc parameters": _connection("jdbc:postgresql://db.internal:5432/main?user=app&password=<v>&ssl=true"),
        "jdbc sqlserver": _connection("jdbc:sqlserver://db:1433;databaseName=main;user=app;password=<v>;encrypt=true"),
        "ado": _connection("Server=tcp:db,1433;Initial Catalog=main;User ID=app;Password=<v>;Encrypt=True;"),
        "ado word": _connection("Server=db;Database=main;Uid=app;Pwd=<v>;", lambda rng: _word(rng).lower() + "field"),
        "libpq": _connection("host=db.internal port=5432 dbname=main user=app password=<v> sslmode=require"),
        "rsa header": _pem_header("RSA PRIVATE" + " KEY"),
        "openssh header": _pem_header("OPENSSH PRIVATE" + " KEY"),
        "encrypted header": _pem_header("ENCRYPTED PRIVATE" + " KEY"),
        "kubernetes data": _kubernetes("data", True),
        "kubernetes json": _kubernetes_json,
        "jwt": _bearer("", 60),
        "long jwt": _bearer("", 9000),
        "bearer jwt": _bearer("Authorization: Bearer ", 3000),
        "token in url": lambda rng: f"https://{_secret(draw(rng, HEX, 40))}@git.internal/team/repo.git",
        "digits inside": lambda rng: _secret("s" + "k-" + draw(rng, ALNUM, 20) + "1234567" + draw(rng, ALNUM, 21)),
    },
    SECOND: {
        **{f"url {scheme}": _database_url(scheme) for scheme in (
            "postgresql+psycopg", "mariadb", "mongodb", "redis", "amqp", "clickhouse", "snowflake",
        )},
        "url oracle": _database_url("oracle+oracledb", ":1521/?service_name=main"),
        "url sqlserver": _database_url("sqlserver", ":1433?database=main"),
        "jdbc mysql": _connection("jdbc:mysql://db:3306/main?useSSL=false&user=app&password=<v>"),
        "jdbc oracle": _connection("jdbc:oracle:thin:app/<v>@//db.internal:1521/main"),
        "odbc": _connection("DRIVER={ODBC Driver 18};SERVER=db;DATABASE=main;UID=app;PWD=<v>"),
        "ado word": _connection(
            "Data Source=db;Initial Catalog=main;User Id=app;Password=<v>;", lambda rng: "old" + _word(rng).lower()
        ),
        "snowflake dsn": _connection("account=ab123;user=app;password=<v>;warehouse=wh;database=main"),
        "ec header": _pem_header("EC PRIVATE" + " KEY"),
        "pkcs8 header": _pem_header("PRIVATE" + " KEY"),
        "pgp header": _pem_header("PGP PRIVATE" + " KEY BLOCK"),
        "dsa header": _pem_header("DSA PRIVATE" + " KEY"),
        "kubernetes stringData": _kubernetes("stringData", False),
        "kubernetes data": _kubernetes("data", True),
        "jwt": _bearer("", 90),
        "very long jwt": _bearer("", 20_000),
        "cookie jwt": _bearer("Cookie: session=", 700, "; theme=dark"),
        "token in url": lambda rng: f"git clone https://{_secret(draw(rng, ALNUM, 32))}@git.internal/team/repo.git",
        "digits inside": lambda rng: _secret("gh" + "p_" + draw(rng, ALNUM, 12) + "23456789" + draw(rng, ALNUM, 16)),
    },
    THIRD: {
        **{f"url {scheme}": _database_url(scheme) for scheme in (
            "mysql", "postgresql", "mongodb+srv", "valkey", "nats", "ftp", "ldaps", "smtp", "redshift+psycopg2",
        )},
        "jdbc mariadb": _connection("jdbc:mariadb://db/main?user=app&password=<v>&useSsl=true"),
        "jdbc db2": _connection("jdbc:db2://db:50000/main:user=app;password=<v>;"),
        "npgsql": _connection("Host=db;Port=5432;Username=app;Password=<v>;Database=main"),
        "oledb": _connection("Provider=SQLNCLI11;Server=db;Database=main;Uid=app;Pwd=<v>;"),
        "mysql word": _connection("Server=db;User=app;Password=<v>;", lambda rng: "green" + _word(rng).lower()),
        "pgpass style": _connection("host=db port=5432 user=app password=<v> connect_timeout=5"),
        "encrypted ec header": _pem_header("ENCRYPTED PRIVATE" + " KEY"),
        "any header": _pem_header("ANY PRIVATE" + " KEY"),
        "kubernetes stringData": _kubernetes("stringData", False),
        "kubernetes json": _kubernetes_json,
        "jwt": _bearer("id_token=", 120),
        "long jwt": _bearer("-H 'Authorization: Bearer ", 5000, "'"),
        "token in url": lambda rng: f"pip install git+https://{_secret(draw(rng, HEX, 40))}@git.internal/a/b.git",
        "digits inside": lambda rng: _secret("gl" + "pat-" + draw(rng, ALNUM, 8) + "7654321" + draw(rng, ALNUM, 12)),
    },
    FOURTH: {
        **{f"url {scheme}": _database_url(scheme) for scheme in (
            "pgx5", "mysql+aiomysql", "couchbases", "rediss+sentinel", "kafka", "imaps", "neo4j+s", "cassandra",
        )},
        "jdbc as400": _connection("jdbc:as400://host;user=app;password=<v>;naming=sql"),
        "jdbc postgresql": _connection("jdbc:postgresql://db/main?ssl=true&user=app&password=<v>"),
        "entity framework": _connection("data source=db;initial catalog=main;user id=app;password=<v>;App=EF"),
        "sqlcmd style": _connection("server=db;user=app;pwd=<v>;database=main"),
        "word": _connection("Host=db;Username=app;Password=<v>;Pooling=true", lambda rng: "quiet" + _word(rng).lower()),
        "rsa header": _pem_header("RSA PRIVATE" + " KEY"),
        "pgp header": _pem_header("PGP PRIVATE" + " KEY BLOCK"),
        "kubernetes data": _kubernetes("data", True),
        "jwt": _bearer("Set-Auth: ", 200),
        "long jwt": _bearer('{"jwt": "', 12_000, '"}'),
        "token in url": lambda rng: f"origin https://{_secret(draw(rng, ALNUM, 40))}@git.internal/a/b.git (push)",
        "digits inside": lambda rng: _secret("np" + "m_" + draw(rng, ALNUM, 14) + "3456789" + draw(rng, ALNUM, 15)),
    },
    FIFTH: {
        **{f"url {scheme}": _database_url(scheme) for scheme in (
            "postgis", "mysqlx", "mongodb", "unix+redis", "stomp", "sftp", "hive", "trino", "vertica+vertica_python",
        )},
        "jdbc redshift": _connection("jdbc:redshift://c.internal:5439/main?UID=app&PWD=<v>"),
        "jdbc sqlserver": _connection("jdbc:sqlserver://db;user=app;password=<v>;trustServerCertificate=true"),
        "azure sql": _connection("Server=tcp:x.windows.net,1433;Database=main;User ID=app;Password=<v>;Timeout=30;"),
        "firebird": _connection("User=app;Password=<v>;Database=main.fdb;DataSource=db;Port=3050"),
        "word": _connection("DSN=warehouse;UID=app;PWD=<v>;", lambda rng: "brave" + _word(rng).lower()),
        "ec header": _pem_header("EC PRIVATE" + " KEY"),
        "openssh header": _pem_header("OPENSSH PRIVATE" + " KEY"),
        "kubernetes stringData": _kubernetes("stringData", False),
        "kubernetes data": _kubernetes("data", True),
        "jwt": _bearer("token ", 150),
        "long jwt": _bearer("access_token=", 15_000, "&scope=all"),
        "token in url": lambda rng: f"npm config set registry https://{_secret(draw(rng, ALNUM, 36))}@npm.internal/",
        "digits inside": lambda rng: _secret("h" + "f_" + draw(rng, LETTERS, 14) + "1234567" + draw(rng, LETTERS, 13)),
    },
}  # fmt: skip


STRUCTURES[SIXTH] = {kind: make for part in STRUCTURES.values() for kind, make in list(part.items())[1::4]}


# --- secrets broken by the end of a line ---------------------------------------------------------------------------
BREAKS: dict[int, dict[str, tuple[str, str, str]]] = {
    FIRST: {
        "line end": ("", "\n", ""),
        "carriage return": ("", "\r\n", ""),
        "backslash": ('"', "\\\n", '"'),
        "yaml folded": ("key: >-\n  ", "\n  ", "\n"),
        "quoted plus": ('"', '" +\n    "', '"'),
        "json escape": ('{"body": "', "\\n", '"}'),
        "diff": ("+", "\n+", "\n"),
    },
    SECOND: {
        "indented": ("    ", "\n        ", "\n"),
        "quoted adjacent": ("('", "'\n     '", "')"),
        "shell backslash": ("export X=", "\\\n", "\n"),
        "json crlf": ('{"body": "', "\\r\\n", '"}'),
        "quote mark": ("> ", "\n> ", "\n"),
        "comment": ("# ", "\n# ", "\n"),
        "backslash indented": ("run ", " \\\n    ", "\n"),
    },
    THIRD: {
        "tabs": ("\t", "\n\t", "\n"),
        "double quoted plus": ('x = "', '"\n  + "', '"'),
        "list": ("- ", "\n  ", "\n"),
        "c comment": (" * ", "\n * ", "\n"),
        "crlf indented": ("  ", "\r\n  ", "\r\n"),
        "literal block": ("key: |\n    ", "\n    ", "\n"),
        "backtick": ("`", "\n", "`"),
    },
    FOURTH: {
        "numbered": ("1. ", "\n   ", "\n"),
        "dart adjacent": ("x = '", "'\n      '", "';"),
        "dot": ("$x = '", "' .\n  '", "';"),
        "slashes": ("// ", "\n// ", "\n"),
        "mail": (">> ", "\n>> ", "\n"),
        "removed lines": ("-", "\n-", "\n"),
        "yaml plain": ("token: ", "\n  ", "\n"),
    },
    FIFTH: {
        "eight spaces": ("        ", "\n        ", "\n"),
        "markdown break": ("", "  \n", "\n"),
        "javadoc": ("   * ", "\n   * ", "\n"),
        "python implicit": ('key = (\n    "', '"\n    "', '"\n)'),
        "javascript": ("const k = '", "' +\n  '", "';"),
        "sql comment": ("-- ", "\n-- ", "\n"),
        "added lines": ("+  ", "\n+  ", "\n"),
    },
    SIXTH: {
        "three spaces": ("   ", "\n   ", "\n"),
        "nested list": ("  - ", "\n    ", "\n"),
        "hash comment": ("    # ", "\n    # ", "\n"),
        "go plus": ('k := "', '" +\n\t\t"', '"'),
        "quoted crlf": ('"', '"\r\n"', '"'),
        "context lines": (" ", "\n ", "\n"),
        "folded": ("token: >\n    ", "\n    ", "\n"),
    },
}
"""What stands before, between and after the two halves."""
_BROKEN: tuple[Maker, ...] = (
    lambda rng: "gh" + "p_" + draw(rng, ALNUM, 36),
    lambda rng: "s" + "k-proj-" + draw(rng, URLSAFE, 120),
    lambda rng: "gl" + "pat-" + draw(rng, ALNUM, 20),
    lambda rng: "AK" + "IA" + draw(rng, UPPER[:26] + "234567", 16),
    lambda rng: "xo" + "xb-" + draw(rng, "0123456789", 12) + "-" + draw(rng, ALNUM, 24),
    lambda rng: "sk" + "_live_" + draw(rng, ALNUM, 24),
    lambda rng: "SG" + "." + draw(rng, URLSAFE, 22) + "." + draw(rng, URLSAFE, 43),
    _jwt,
)


def _fill(place: str, name: str, value: str) -> str:
    return place.replace("<n>", name).replace("<v>", value)


def _broken(part: int, rng: Random) -> Iterator[UnseenSecret]:
    for place, (before, between, after) in BREAKS[part].items():
        for number, make in enumerate(_BROKEN):
            secret = make(rng)
            at = rng.randrange(len(secret) // 3, 2 * len(secret) // 3)
            text = before + secret[:at] + between + secret[at:] + after
            yield UnseenSecret("broken by a line end", f"break {number}", place, text, (secret[:at], secret[at:]))


def unseen_secrets(part: int, rounds: int = 6) -> Iterator[UnseenSecret]:
    """Yield the texts of one part, `rounds` times with other random characters."""
    for number in range(rounds):
        rng = Random(f"unseen/{part}/{number}")
        for kind, make in VENDORS[part].items():
            for place, surround in PLACES[part].items():
                yield _finish("vendor's format", kind, place, _fill(surround, rng.choice(NEUTRAL), make(rng)))
        for name in NAMES[part]:
            for place, surround in PLACES[part].items():
                yield _finish("by its name", name, place, _fill(surround, name, _secret(_named_value(rng, name))))
        for kind, make in STRUCTURES[part].items():
            for place, text in _around(part, rng, make(rng)).items():
                yield _finish("structure", kind, place, text)
        yield from _broken(part, rng)


def _around(part: int, rng: Random, text: str) -> dict[str, str]:
    """Return surroundings for a text of one or several lines."""
    places = {"bare": text, "after prose": f"This is what the host had last night:\n\n{text}\n"}
    if "\n" not in text:
        places["inline"] = f"It connects with `{text}` since Monday."
        places["yaml"] = f"target:\n  conn: {text}\n"
    else:
        places["diff"] = "".join(f"+{line}\n" for line in text.splitlines())
        places["two documents"] = f"kind: Service\n---\n{text}---\nkind: Pod\n"
    return places


def _finish(family: str, kind: str, place: str, marked: str) -> UnseenSecret:
    parts = tuple(piece.partition(CLOSE)[0] for piece in marked.split(OPEN)[1:])
    return UnseenSecret(family, kind, place, marked.replace(OPEN, "").replace(CLOSE, ""), parts)
