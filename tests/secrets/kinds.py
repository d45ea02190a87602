"""Generators of secrets of each kind, from the vendors' published formats; independent of the detector.

This file has no literal that looks like a secret: prefixes are split in two, everything else is random.
"""

from __future__ import annotations

import base64
import json
import string
import uuid
from collections.abc import Callable
from random import Random

LETTERS = string.ascii_letters
ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
LOWER = string.ascii_lowercase + string.digits
HEX = "0123456789abcdef"
URLSAFE = ALNUM + "_-"
BASE64 = ALNUM + "+/"
BASE32 = string.ascii_uppercase + "234567"
BECH32 = "qpzry9x8gf2tvdw0s3jn54khce6mua7l".upper()

Maker = Callable[[Random], str]


def draw(rng: Random, alphabet: str, size: int) -> str:
    """Return a random string of characters from an alphabet."""
    return "".join(rng.choices(alphabet, k=size))


def _pattern(*parts: str | tuple[str, int]) -> Maker:
    """Return a generator: texts are literal, pairs of alphabet and size are random."""
    return lambda rng: "".join(part if isinstance(part, str) else draw(rng, *part) for part in parts)


def _any_of(*makers: Maker) -> Maker:
    return lambda rng: rng.choice(makers)(rng)


def _uuid(rng: Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def _b64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _jwt(rng: Random) -> str:
    head = {"alg": rng.choice(["HS256", "RS256", "ES256"]), "typ": "JWT"}
    body = {"sub": draw(rng, "0123456789", 10), "role": "service_role", "iat": rng.randrange(10**9, 2 * 10**9)}
    parts = (json.dumps(part, separators=(",", ":")).encode() for part in (head, body))
    return ".".join((*map(_b64url, parts), _b64url(rng.randbytes(32))))


def _engrambus(rng: Random) -> str:
    body = {"agent": f"worker-{rng.randrange(99)}", "run": draw(rng, UPPER, 26), "role": "worker"}
    return ".".join(("engrambus" + "1", _b64url(json.dumps(body).encode()), _b64url(rng.randbytes(32))))


def _pem(label: str, size: int, *head: str) -> Maker:
    def make(rng: Random) -> str:
        body = base64.b64encode(rng.randbytes(size)).decode()
        lines = [body[index : index + 64] for index in range(0, len(body), 64)]
        edge = "-" * 5
        return "\n".join((f"{edge}BEGIN {label}{edge}", *head, *lines, f"{edge}END {label}{edge}"))

    return make


def _service_account(rng: Random) -> str:
    key = _pem("PRIVATE" + " KEY", 600)(rng)
    return json.dumps({"type": "service_account", "project_id": "acme-prod", "private_key": key + "\n"})


def _password(rng: Random) -> str:
    word = rng.choice(["Winter", "Falcon", "orchid", "Saturn", "kettle", "Bramble", "mercury", "Tundra"])
    shapes = (
        f"{word}{rng.randrange(1000, 9999)}{rng.choice('!#%^*')}",
        f"{word[:3]}{rng.choice('@&!#')}{draw(rng, ALNUM, 6)}{rng.randrange(10)}",
        draw(rng, ALNUM, 6) + rng.choice("!#%^*") + draw(rng, ALNUM, 6) + str(rng.randrange(10)),
        draw(rng, ALNUM, 15) + str(rng.randrange(10)),
    )
    return rng.choice(shapes)


def _url(rng: Random) -> str:
    scheme = rng.choice(["postgres", "postgresql+asyncpg", "mysql", "redis", "amqp", "mongodb+srv", "https", "ftp"])
    user = rng.choice(["app", "deploy", "svc-billing", "root", ""])
    return f"{scheme}://{user}:{_password(rng).replace('#', '!').replace('@', '!')}@db.internal:5432/main"


def _sentry_dsn(rng: Random) -> str:
    public, secret = draw(rng, HEX, 32), draw(rng, HEX, 32)
    return f"https://{public}:{secret}@o{rng.randrange(10**6)}.ingest.sentry.io/{rng.randrange(10**7)}"


def _basic(rng: Random) -> str:
    return "Authorization: Basic " + base64.b64encode(f"deploy:{_password(rng)}".encode()).decode()


def _assigned(*names: str) -> Callable[[Maker], Maker]:
    """A maker of whole assignments: the value alone says nothing about its kind."""

    def bind(value: Maker) -> Maker:
        def make(rng: Random) -> str:
            name, drawn = rng.choice(names), value(rng)
            shapes = (
                f"{name}={drawn}",
                f'{name} = "{drawn}"',
                f"{name}: {drawn}",
                f"export {name}='{drawn}'",
                f'"{name}": "{drawn}"',
                f'os.environ["{name}"] = "{drawn}"',
                f"--{name.lower().replace('_', '-')} {drawn}",
                f"{name.lower()}: str = '{drawn}'",
            )
            return rng.choice(shapes)

        return make

    return bind


# Kinds whose value is known by itself, wherever it stands.
FREE: dict[str, Maker] = {
    "engrambus": _engrambus,
    "openai": _any_of(
        _pattern("sk" + "-proj-", (URLSAFE, 74), "T3Blbk" + "FJ", (URLSAFE, 74)),
        _pattern("sk" + "-", (ALNUM, 20), "T3Blbk" + "FJ", (ALNUM, 20)),
        _pattern("sk" + "-svcacct-", (URLSAFE, 120)),
        _pattern("sk" + "-admin-", (URLSAFE, 120)),
    ),
    "anthropic": _any_of(
        *(_pattern("sk" + f"-ant-{sort}-", (URLSAFE, 93), "AA") for sort in ("api03", "admin01", "oat01"))
    ),
    "openrouter": _pattern("sk" + "-or-v1-", (HEX, 64)),
    "deepseek": _pattern("sk" + "-", (HEX, 32)),
    "google-api": _pattern("AI" + "za", (URLSAFE, 35)),
    "google-oauth": _any_of(_pattern("ya" + "29.a0", (URLSAFE, 180)), _pattern("GOC" + "SPX-", (URLSAFE, 28))),
    "aws-access-key": _any_of(*(_pattern(head[:2] + head[2:], (BASE32, 16)) for head in ("AKIA", "ASIA"))),
    "github": _any_of(*(_pattern("gh" + f"{sort}_", (ALNUM, 36)) for sort in "pousr")),
    "github-fine-grained": _pattern("github" + "_pat_", (ALNUM, 22), "_", (ALNUM, 59)),
    "gitlab": _any_of(*(_pattern("gl" + f"{sort}-", (URLSAFE, 20)) for sort in ("pat", "dt", "rt", "ft", "soat"))),
    "gitlab-pipeline": _pattern("gl" + "ptt-", (HEX, 40)),
    "slack": _any_of(
        _pattern("xo" + "xb-", (string.digits, 12), "-", (string.digits, 13), "-", (ALNUM, 24)),
        _pattern("xo" + "xp-", (string.digits, 12), "-", (string.digits, 12), "-", (string.digits, 13), "-", (HEX, 32)),
        _pattern("xa" + "pp-1-A", (UPPER, 10), "-", (string.digits, 13), "-", (HEX, 64)),
    ),
    "slack-webhook": _pattern(
        "https://hooks.slack.com/" + "services/T", (UPPER, 8), "/B", (UPPER, 10), "/", (ALNUM, 24)
    ),
    "stripe": _any_of(
        *(_pattern(f"{head}_" + f"{mode}_", (ALNUM, 24)) for head in ("sk", "rk") for mode in ("live", "test"))
    ),
    "stripe-webhook": _pattern("wh" + "sec_", (ALNUM, 32)),
    "twilio": _pattern("S" + "K", (HEX, 32)),
    "sendgrid": _pattern("S" + "G.", (URLSAFE, 22), ".", (URLSAFE, 43)),
    "mailgun": _pattern("ke" + "y-", (HEX, 32)),
    "npm": _pattern("np" + "m_", (ALNUM, 36)),
    "pypi": _pattern("py" + "pi-AgEIcHlwaS5vcmc", (URLSAFE, 140)),
    "huggingface": _pattern("h" + "f_", (LETTERS, 34)),
    "azure-client-secret": _pattern((ALNUM, 3), "8Q" + "~", (ALNUM + "_~.-", 34)),
    "gcp-service-account": _service_account,
    "digitalocean": _any_of(*(_pattern(f"do{sort}" + "_v1_", (HEX, 64)) for sort in "por")),
    "cloudflare-origin": _pattern("v1" + ".0-", (HEX, 24), "-", (HEX, 146)),
    "heroku": _pattern("HR" + "KU-AA", (URLSAFE, 58)),
    "linear": _pattern("lin" + "_api_", (ALNUM, 40)),
    "notion": _any_of(_pattern("nt" + "n_", (string.digits, 11), (ALNUM, 35)), _pattern("sec" + "ret_", (ALNUM, 43))),
    "figma": _pattern("fig" + "d_", (URLSAFE, 40)),
    "atlassian": _pattern("ATA" + "TT3xFfGF0", (URLSAFE, 180), "=", (UPPER, 8)),
    "bitbucket": _pattern("AT" + "BB", (ALNUM, 32)),
    "newrelic": _pattern("NR" + "AK-", (UPPER, 27)),
    "newrelic-license": _pattern((HEX, 32), "FFFF" + "NRAL"),
    "sentry-token": _pattern("sntr" + "yu_", (HEX, 64)),
    "sentry-dsn": _sentry_dsn,
    "telegram": _pattern((string.digits[1:], 10), ":A", "A", (URLSAFE, 33)),
    "discord-bot": _pattern("M", (ALNUM, 23), ".", (URLSAFE, 6), ".", (URLSAFE, 38)),
    "discord-webhook": _pattern("https://discord.com/api/" + "webhooks/", (string.digits[1:], 18), "/", (URLSAFE, 68)),
    "shopify": _any_of(*(_pattern(f"shp{sort}" + "_", (HEX, 32)) for sort in ("at", "ca", "pa", "ss"))),
    "square": _any_of(_pattern("sq0" + "atp-", (URLSAFE, 22)), _pattern("sq0" + "csp-", (URLSAFE, 43))),
    "databricks": _pattern("da" + "pi", (HEX, 32)),
    "vault": _any_of(_pattern("hv" + "s.", (URLSAFE, 94)), _pattern("hv" + "b.", (URLSAFE, 150))),
    "terraform": _pattern((ALNUM, 14), ".atlas" + "v1.", (URLSAFE, 67)),
    "doppler": _any_of(*(_pattern("dp." + f"{sort}.", (ALNUM, 43)) for sort in ("pt", "ct", "sa"))),
    "age": _pattern("AGE-SECRET" + "-KEY-1", (BECH32, 58)),
    "flyio": _any_of(_pattern("fo" + "1_", (URLSAFE, 43)), _pattern("fm" + "2_", (BASE64, 160))),
    "vercel": _any_of(*(_pattern(f"vc{sort}" + "_", (ALNUM, 56)) for sort in "pikr")),
    "supabase": _any_of(_pattern("sb" + "p_", (HEX, 40)), _pattern("sb" + "_secret_", (URLSAFE, 22), "_", (ALNUM, 8))),
    "postman": _pattern("PM" + "AK-", (HEX, 24), "-", (HEX, 34)),
    "airtable": _pattern("pa" + "t", (ALNUM, 14), ".", (HEX, 64)),
    "dropbox": _pattern("s" + "l.B", (URLSAFE, 135)),
    "dynatrace": _pattern("dt0" + "c01.", (UPPER, 24), ".", (UPPER, 64)),
    "grafana": _pattern("gl" + "sa_", (ALNUM, 32), "_", (HEX, 8)),
    "planetscale": _pattern("pscale" + "_tkn_", (URLSAFE, 43)),
    "pulumi": _pattern("pu" + "l-", (HEX, 40)),
    "rubygems": _pattern("ruby" + "gems_", (HEX, 48)),
    "brevo": _pattern("xkey" + "sib-", (HEX, 64), "-", (ALNUM, 16)),
    "nuget": _pattern("oy" + "2", (LOWER, 43)),
    "perplexity": _pattern("pp" + "lx-", (ALNUM, 48)),
    "groq": _pattern("gs" + "k_", (ALNUM, 52)),
    "replicate": _pattern("r" + "8_", (ALNUM, 37)),
    "xai": _pattern("xa" + "i-", (ALNUM, 80)),
    "langsmith": _pattern("lsv2" + "_pt_", (HEX, 32), "_", (HEX, 10)),
    "docker": _pattern("dckr" + "_pat_", (URLSAFE, 27)),
    "buildkite": _pattern("bk" + "ua_", (HEX, 40)),
    "tailscale": _pattern("ts" + "key-auth-", (ALNUM, 17), "-", (ALNUM, 32)),
    "netlify": _pattern("nf" + "p_", (ALNUM, 36)),
    "sonar": _pattern("sq" + "u_", (HEX, 40)),
    "artifactory": _pattern("AK" + "Cp", (ALNUM, 69)),
    "easypost": _pattern("EZ" + "AK", (ALNUM, 54)),
    "shippo": _pattern("shippo" + "_live_", (HEX, 40)),
    "mailchimp": _pattern((HEX, 32), "-u" + "s", (string.digits[1:], 2)),
    "onepassword-reference": lambda rng: (
        "op" + f"://{rng.choice(['Private', 'Prod vault', 'Team'])}/db-{rng.randrange(99)}/password"
    ),
    "rsa-private-key": _pem("RSA PRIVATE" + " KEY", 600),
    "ec-private-key": _pem("EC PRIVATE" + " KEY", 118),
    "openssh-private-key": _pem("OPENSSH PRIVATE" + " KEY", 400),
    "pkcs8-private-key": _pem("PRIVATE" + " KEY", 600),
    "pgp-private-key": _pem("PGP PRIVATE" + " KEY BLOCK", 900, "Version: GnuPG v2", ""),
    "url-password": _url,
    "jwt": _jwt,
    "basic-header": _basic,
    "bearer-header": lambda rng: "Authorization: Bearer " + draw(rng, ALNUM, rng.choice([24, 32, 40, 64])),
    "high-entropy": lambda rng: draw(rng, rng.choice([ALNUM, URLSAFE]), rng.choice([40, 48, 64])),
}

# Kinds known only by the name they are given to.
NAMED: dict[str, Maker] = {
    "aws-secret-key": _assigned("AWS_SECRET_ACCESS_KEY", "aws_secret_access_key", "secretAccessKey")(
        _pattern((BASE64, 40))
    ),
    "azure-storage-key": lambda rng: (
        f"DefaultEndpointsProtocol=https;AccountName=acme;AccountKey={base64.b64encode(rng.randbytes(64)).decode()}"
    ),
    "azure-sas": lambda rng: (
        "https://acme.blob.core.windows.net/c/f?sv=2022-11-02&se=2030-01-01&sr=c&sp=rl&sig="
        + base64.b64encode(rng.randbytes(32)).decode().replace("+", "%2B").replace("/", "%2F").replace("=", "%3D")
    ),
    "cloudflare": _assigned("CLOUDFLARE_API_TOKEN", "CF_API_TOKEN")(_pattern((URLSAFE, 40))),
    "datadog": _assigned("DD_API_KEY", "DATADOG_API_KEY", "dd-api-key")(_pattern((HEX, 32))),
    "datadog-app": _assigned("DD_APP_KEY", "DD_APPLICATION_KEY")(_pattern((HEX, 40))),
    "twilio-auth": _assigned("TWILIO_AUTH_TOKEN", "twilioAuthToken")(_pattern((HEX, 32))),
    "heroku-uuid": _assigned("HEROKU_API_KEY")(_uuid),
    "okta": _assigned("OKTA_API_TOKEN", "okta_token")(_pattern("00", (URLSAFE, 40))),
    "fastly": _assigned("FASTLY_API_TOKEN", "FASTLY_KEY_TOKEN")(_pattern((URLSAFE, 32))),
    "vercel-legacy": _assigned("VERCEL_TOKEN")(_pattern((ALNUM, 24))),
    "algolia": _assigned("ALGOLIA_ADMIN_KEY", "algoliaApiKey")(_pattern((HEX, 32))),
    "mistral": _assigned("MISTRAL_API_KEY")(_pattern((ALNUM, 32))),
    "cohere": _assigned("CO_API_KEY", "COHERE_API_KEY")(_pattern((ALNUM, 40))),
    "snyk": _assigned("SNYK_TOKEN")(_uuid),
    "plaid": _assigned("PLAID_SECRET")(_pattern((HEX, 30))),
    "client-secret": _assigned("client_secret", "OAUTH_CLIENT_SECRET", "clientSecret")(_pattern((URLSAFE, 32))),
    "django-secret-key": lambda rng: f"SECRET_KEY = '{draw(rng, LOWER + '!@#$%^&*(-_=+)', 50)}'",
    "password": _assigned("DB_PASSWORD", "password", "PGPASSWORD", "smtp_passwd", "adminPassword")(_password),
    "npmrc": lambda rng: f"//registry.npmjs.org/:_authToken={_uuid(rng)}",
    "netrc": lambda rng: f"machine api.acme.dev login deploy password {_password(rng)}",
}
