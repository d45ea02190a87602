"""Texts that look like secrets and are none, in the parts of the second corpus."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from random import Random

from tests.secrets.kinds import ALNUM, BASE64, HEX, LETTERS, LOWER, draw
from tests.secrets.unseen import FIFTH, FIRST, FOURTH, SECOND, SIXTH, THIRD, draw_uuid

BASE58 = "".join(sorted(set(ALNUM) - set("0OIl")))


def innocent_texts(part: int, rounds: int = 40) -> Iterator[tuple[str, str]]:
    """Yield kinds and texts that look like secrets and are none."""
    for number in range(rounds):
        rng = Random(f"innocent/{part}/{number}")
        yield from _innocent(part, rng).items()


def _ulid(rng: Random) -> str:
    return "01" + draw(rng, "0123456789ABCDEFGHJKMNPQRSTVWXYZ", 24)


def _innocent(part: int, rng: Random) -> dict[str, str]:
    sha, digest, path = draw(rng, HEX, 40), draw(rng, HEX, 64), rng.choice(["src/auth.py", "lib/token.go", "a/key.ts"])
    b64 = base64.b64encode(rng.randbytes(48)).decode()
    first = {
        "ipfs address": f"The archive is at ipfs://Qm{draw(rng, BASE58, 44)}/index.html.",
        "cid": f"added Qm{draw(rng, BASE58, 44)} planets/mars.txt",
        "pointer": f"See repo:{path}#L{rng.randrange(9)}-L{rng.randrange(10, 99)}@{sha}.",
        "artifact": f"artifact:sha256:{digest}#L1-L9 shows the failure.",
        "ulid": f"The engram {_ulid(rng)} replaces {_ulid(rng)}.",
        "uuid": f"request {draw_uuid(rng)} failed twice",
        "lock file": f'"integrity": "sha384-{b64}"',
        "docker digest": f"FROM alpine@sha256:{digest}",
        "placeholder": rng.choice(
            ["API_KEY=your-api-key-here", "token: <insert token>", "password: changeme", "SECRET=xxxxxxxxxxxxxxxx"]
        ),
        "image": f"background: url(data:image/gif;base64,{b64});",
        "camel case": f"V{rng.randrange(9)}CustomResourceDefinitionNamesValidationTest{rng.randrange(99)}",
        "library": "Install sk-learn-contrib and sk-estimator-html with the sk-toggleable switch.",
        "reference": "password: ${DB_PASSWORD}\ntoken: {{ vault_token }}\nsecret: !Ref DbSecret\n",
        "manifest without a value": "kind: Secret\ndata: {}\n",
        "public key": f"-----BEGIN PUBLIC KEY-----\n{b64}\n-----END PUBLIC KEY-----",
    }
    second = {
        "ipns address": f"ipns://k51qzi5uqu5d{draw(rng, LOWER, 50)}",
        "peer": f"/p2p/12D3KooW{draw(rng, BASE58, 44)}",
        "short pointer": f"The check is in {path}:10-20@{sha[:12]}, not in {path}:5@{sha[:7]}.",
        "diff pointer": f"diff:{path}@{sha}..{draw(rng, HEX, 40)}",
        "agent": f"{_ulid(rng)}/reviewer-2 answered {_ulid(rng)}/coder",
        "trace": f"traceparent: 00-{draw(rng, HEX, 32)}-{draw(rng, HEX, 16)}-01",
        "go.sum": f"example.org/x/text v0.3.{rng.randrange(9)} h1:{base64.b64encode(rng.randbytes(32)).decode()}",
        "pip hash": f"--hash=sha256:{digest} \\",
        "csp": f"script-src 'sha256-{base64.b64encode(rng.randbytes(32)).decode()}' 'self'",
        "placeholder": rng.choice(
            ["Authorization: Bearer <token>", "--password PASSWORD", "postgres://user:pass@localhost/db", "key=***"]
        ),
        "font": f"src: url(data:font/woff2;base64,{b64}) format('woff2')",
        "minified": f"function {draw(rng, LETTERS, 2)}(e){{return {draw(rng, LETTERS, 2)}.token=1}}",
        "prose": "A turn has 1,200 tokens; the password field is hidden, and the secret is rotated every 30 days.",
        "environment": "const key = process.env.API_KEY; password = os.environ['DB_PASSWORD']",
        "certificate": f"-----BEGIN CERTIFICATE-----\n{b64}\n-----END CERTIFICATE-----",
        "etag": f'ETag: W/"{draw(rng, BASE64, 27)}"',
    }
    third = {
        "ipfs gateway": f"https://ipfs.io/ipfs/Qm{draw(rng, BASE58, 44)}?filename=a.txt",
        "pinned page": f"url:https://docs.acme.dev/guide@sha256:{digest}",
        "test pointer": f"test:tests/test_{rng.choice(['token', 'key'])}.py::test_expiry@sha256:{digest}",
        "memory": f"sam:decision:use-sqlite@{rng.randrange(1, 9)} replaces {_ulid(rng)}",
        "yarn lock": f"  integrity sha512-{base64.b64encode(rng.randbytes(64)).decode()}",
        "cargo lock": f'checksum = "{digest}"',
        "docker": f"sha256:{digest} 2 weeks ago /bin/sh -c #(nop) CMD",
        "svg": f'<image href="data:image/svg+xml;base64,{b64}"/>',
        "uuid list": f"ids: [{draw_uuid(rng)}, {draw_uuid(rng)}]",
        "placeholder": rng.choice(
            [
                "api_key: 'REPLACE_ME'",
                "PASSWORD=hunter2hunter2-example",
                "token = '...'",
                "secret: null",
                "key: ${{ secrets.KEY }}",
            ]
        ),
        "python": "def check_token(token: str, password: str | None = None) -> bool: return bool(token)",
        "sql": "SELECT password_hash, token_count FROM users WHERE api_key_id = 17;",
        "help": "--password-file FILE  read the password from FILE; --token-ttl 30d",
        "ssh": f"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQ{draw(rng, BASE64, 120)} me@host",
        "git log": f"{sha} secrets: rotate the signing key\n{draw(rng, HEX, 40)} tokens: shorter lifetimes",
    }
    fourth = {
        "cid in json": json.dumps({"cid": "Qm" + draw(rng, BASE58, 44)}),
        "permalink": f"https://github.com/o/r/blob/{sha}/{path}#L1-L9",
        "swhid": f"swh:1:cnt:{sha};lines=1-2",
        "grant": f"budget_token: g_{_ulid(rng)} for {_ulid(rng)}/coder",
        "composer": f'"shasum": "{sha}", "reference": "{draw(rng, HEX, 40)}"',
        "nix": f'sha256 = "sha256-{base64.b64encode(rng.randbytes(32)).decode()}";',
        "png": f'src="data:image/png;base64,iVBORw0KGgo{b64}"',
        "ethereum": f"deployed at 0x{draw(rng, HEX, 40)}",
        "placeholder": rng.choice(
            ["SECRET_KEY=change-me-please", "token: TOKEN", "password: <redacted>", "pwd: ********"]
        ),
        "prose": "Each token is signed; a key that is lost cannot be restored, and the password is asked for twice.",
        "type": "interface Login { password: string; token?: string; apiKey: string | undefined }",
        "call": "password = getpass.getpass(); token = request.headers.get('Authorization')",
        "metric": f"token_count=1834 key_count={rng.randrange(99)} secret_scans=12",
        "version": f"pkg:golang/github.com/x/oauth2@v0.0.0-20180821212333-{draw(rng, HEX, 12)}",
        "sops": f"password: ENC[AES256_GCM,data:{draw(rng, BASE64, 12)},iv:{draw(rng, BASE64, 43)}=,type:str]",
    }
    fifth = {
        "cid path": f"/ipfs/Qm{draw(rng, BASE58, 44)}/wiki/index.html",
        "compare": f"https://github.com/o/r/compare/{sha}...{draw(rng, HEX, 40)}",
        "range": f"{sha[:12]}..{draw(rng, HEX, 12)} moved lib/token.go:3-9@{sha}",
        "receipt": f"receipt sha256:{digest} of step {_ulid(rng)}",
        "poetry lock": f'{{file = "a-1.0.whl", hash = "sha256:{digest}"}}',
        "bun lock": f'"left-pad", "", {{}}, "sha512-{base64.b64encode(rng.randbytes(64)).decode()}"',
        "jpeg": f"data:image/jpeg;base64,/9j/4AAQSkZJRg{b64}",
        "peer": f"connected to 12D3KooW{draw(rng, BASE58, 44)}",
        "placeholder": rng.choice(
            ["API_TOKEN=xxxxxxxxxxxxxxxxxxxx", "secret: 'your-secret'", "password=$PASSWORD", "key = None"]
        ),
        "prose": "Rotate the key, then the token; who has the old password is signed out, and the secret is gone.",
        "go": "func NewToken(secret []byte, ttl time.Duration) (token string, err error) { return sign(secret, ttl) }",
        "css": f".auth-token__{draw(rng, LOWER, 6)} {{ --key-color: #{draw(rng, HEX, 6)}; }}",
        "log": f"req={draw_uuid(rng)} token=valid key=cache:user:17 password=set",
        "module": f"golang.org/x/oauth2 v0.0.0-20180821212333-{draw(rng, HEX, 12)}/go.mod h1:{b64[:43]}=",
        "label": f"{_ulid(rng)}/programmer-17 may read src/auth/token_store.py:10-20@{sha[:10]}",
    }
    return {FIRST: first, SECOND: second, THIRD: third, FOURTH: fourth, FIFTH: fifth, SIXTH: {**second, **fourth}}[part]
