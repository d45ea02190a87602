"""The published formats of vendors' keys, one line each.

A line has the kind, the literal anchors that a key starts with, and the rest of the key in a small notation:

    A letters and digits    W the same with _ and -      U upper case and digits   L lower case and digits
    H lower-case hex        X hex of either case         D digits                  B base64, + and / included
    V letters, digits and . _ - =                        C the bech32 alphabet in upper case

`A36` is exactly 36 characters and then no further letter or digit, `A20-40` from 20 to 40, `A20+` 20 or more. Text in
quotes is literal. A leading `^` means that no letter or digit may precede the anchor; that is needed for anchors that
are short enough to appear inside other words or inside base64. A leading `?` means that the rest must look generated,
because the anchor also begins ordinary names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

_MAX_CHARS = 512

_SETS = {
    "A": "[A-Za-z0-9]",
    "W": "[A-Za-z0-9_-]",
    "U": "[A-Z0-9]",
    "L": "[a-z0-9]",
    "H": "[0-9a-f]",
    "X": "[0-9a-fA-F]",
    "D": "[0-9]",
    "B": "[A-Za-z0-9+/]",
    "V": "[A-Za-z0-9._=-]",
    "C": "[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]",
}

_TABLE = """
engrambus-token         ^ engrambus1.                                        W16+ '.' W43
anthropic-key             sk-ant-                                       W24+
openai-key                sk-proj- sk-svcacct- sk-admin- sk-None-       W20+
openai-key              ^ sk-                                           A32-64
helicone-key              sk-helicone-                                  L7 '-' L7 '-' L7 '-' L7
secret-key            ^ ? sk-                                           W12-64
openrouter-key            sk-or-v1-                                     H64
langfuse-key              sk-lf-                                        X8 '-' X4 '-' X4 '-' X4 '-' X12
google-api-key            AIza                                          W35
google-oauth-token        ya29.                                         W20+
google-client-secret      GOCSPX-                                       W28
google-refresh-token    ^ 1//0                                          W30+
aws-access-key-id       ^ AKIA ASIA ABIA ACCA                           U16
aws-bedrock-key         ^ ABSK                                          B100-400
aws-bedrock-key           bedrock-api-key-                              B30+
github-token              ghp_ gho_ ghu_ ghs_ ghr_                      A36-255
github-token              github_pat_                                   A22 '_' A59
gitlab-token              glpat- gldt- glrt- glft- glsoat- glffct-      W20+
gitlab-token              glimt- glagent- gloas- glptt- glcbt- glwt-    W20+
gitlab-token            ^ GR1348941                                     W20
slack-token               xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xoxe-     W12+
slack-token               xoxe.xoxp- xoxe.xoxb- xapp- xwfp- xoxc- xoxd- W20+
stripe-key                sk_live_ sk_test_ rk_live_ rk_test_ sk_prod_  A16-247
webhook-signing-secret  ^ whsec_                                        B24+
twilio-key              ^ SK                                            X32
sendgrid-key            ^ SG.                                           W16-32 '.' W30-64
mailgun-key             ^ key-                                          H32
npm-token                 npm_                                          A36
pypi-token                pypi-AgE                                      W50+
huggingface-token       ^ hf_                                           A30-40
huggingface-token         api_org_                                      A34
digitalocean-token        dop_v1_ doo_v1_ dor_v1_                       H64
cloudflare-origin-key   ^ v1.0-                                         H24 '-' H140-150
cloudflare-token        ^ cfut_ cfat_ cfk_                              W36+
heroku-key              ^ HRKU-                                         W36+
linear-key                lin_api_ lin_oauth_                           A32-80
notion-token          ^ ? secret_                                       A43
notion-token            ^ ntn_                                          A40-60
figma-token             ^ figd_ figo_ figdh_                            W36+
atlassian-token           ATATT3xFfGF0 ATCTT3xFfGF0 ATSTT3xFfGF0        V20+
bitbucket-token         ^ ATBB                                          A32
newrelic-key            ^ NRAK- NRAA- NRRA- NRIQ- NRII-                 A22-48
sentry-token              sntryu_                                       H64
sentry-token              sntrys_                                       V40+
shopify-token             shpat_ shpca_ shppa_ shpss_ shptka_           X32
square-token              sq0atp- sq0csp- sq0idb-                       W22-64
square-token            ^ EAAA                                          W60
databricks-token        ^ dapi dkea dose                                H32
vault-token             ^ hvs. hvb. hvr.                                W20+
terraform-token           .atlasv1.                                     V60-80
doppler-token           ^ dp.pt. dp.ct. dp.sa. dp.scim. dp.audit.       A40-44
doppler-token           ^ dp.st.                                        V40-80
age-secret-key            AGE-SECRET-KEY-1                              C58
age-secret-key            AGE-SECRET-KEY-PQ-1                           C58+
flyio-token             ^ fo1_                                          W43
flyio-token             ^ fm1a_ fm1r_ fm2_                              B60+
vercel-token            ^ vcp_ vci_ vca_ vcr_ vck_                      W24+
supabase-key            ^ sbp_                                          H40
supabase-key              sb_secret_                                    W22+
postman-key               PMAK-                                         X24 '-' X34
airtable-token          ^ pat                                           A14 '.' H64
dropbox-token           ^ sl.u. sl.B sl.A                               W100+
dynatrace-token           dt0c01. dt0s01. dt0s02. dt0s16.               U24 '.' U64
easypost-key            ^ EZAK EZTK                                     A54
facebook-token          ^ EAAC EAAM EAAB EAAG                           A90+
flutterwave-key           FLWSECK_TEST- FLWSECK-                        A12+
frameio-token             fio-u-                                        V60+
grafana-token             glsa_                                         A32 '_' X8
grafana-token           ^ glc_                                          B32+
planetscale-token         pscale_tkn_ pscale_pw_ pscale_oauth_          V32-64
pulumi-token            ^ pul-                                          H40
readme-key                rdme_                                         L70
rubygems-key              rubygems_                                     H48
shippo-key                shippo_live_ shippo_test_                     X40
brevo-key                 xkeysib- xsmtpsib-                            H64 '-' A16
typeform-token          ^ tfp_                                          V40-64
prefect-token           ^ pnu_ pnb_                                     A36
nuget-key               ^ oy2                                           L43
clojars-token             CLOJARS_                                      A60
contentful-token          CFPAT-                                        W43
duffel-token              duffel_live_ duffel_test_                     V43
perplexity-key            pplx-                                         A40-64
groq-key                ^ gsk_                                          A40-64
replicate-token         ^ r8_                                           A37
xai-key                 ^ xai-                                          A60-100
nvidia-key                nvapi-                                        W60+
langsmith-key             lsv2_pt_ lsv2_sk_                             H32 '_' H10
tavily-key                tvly-                                         W24+
pinecone-key              pcsk_                                         W50+
fireworks-key           ^ fw_                                           A24
cerebras-key            ^ csk-                                          L48
elevenlabs-key          ^ sk_                                           H48
docker-token              dckr_pat_ dckr_oat_                           W27-64
artifactory-key         ^ AKCp                                          A69
artifactory-token       ^ cmVmdGtu                                      A56
buildkite-token           bkua_ bkct_ bkpt_                             A40
circleci-token            CCIPAT_ CCIPRJ_                               W40+
onepassword-token       ^ ops_eyJ                                       B100+
onepassword-secret-key  ^ A3-                                           U6 '-' U6 '-' U5 '-' U5 '-' U5 '-' U5
onepassword-secret-key  ^ A3-                                           U6 '-' U11 '-' U5 '-' U5 '-' U5
tailscale-key             tskey-                                        W20+
netlify-token           ^ nfp_ nfo_ nfc_                                A36
render-key              ^ rnd_                                          A28-40
neon-key                ^ napi_                                         L60+
resend-key              ^ re_                                           A8 '_' A24
adafruit-key              aio_                                          A28
alibaba-key-id          ^ LTAI                                          A12-24
tencent-key-id          ^ AKID                                          A32
yandex-key              ^ AQVN                                          W35-38
yandex-key              ^ YC                                            W38
sonar-token             ^ squ_ sqp_ sqa_                                H40
harness-token           ^ pat. sat.                                     W22 '.' A24 '.' A20
mapbox-token            ^ sk.eyJ                                        W40+ '.' W20-24
sourcegraph-token         sgp_                                          X40
sourcegraph-token         sgp_                                          X16 '_' X40
sourcegraph-token         sgp_local_                                    X40
openshift-token           sha256~                                       W43
octopus-key             ^ API-                                          U26
adobe-secret            ^ p8e-                                          A32
authress-key              .acc_ .acc-                                   W10-32 '.' V30-120
infracost-key           ^ ico-                                          A32
plaid-token               access-sandbox- access-production-            H8 '-' H4 '-' H4 '-' H4 '-' H12
intercom-token          ^ dG9rOg                                        B40-80
defined-token             dnkey-                                        W26 '-' W52
scalingo-token          ^ tk-us-                                        W48
settlemint-token        ^ sm_aat_ sm_pat_ sm_sat_                       A16
clickhouse-key          ^ 4b1d                                          A38
polar-token               polar_oat_ polar_pat_                         W30+
workos-key              ^ sk_a2V5X                                      A30+
wandb-key               ^ wandb_v1_                                     W40+
deno-token              ^ ddp_ ddo_                                     A36
zuplo-key               ^ zpka_                                         A28+
hubspot-token           ^ pat-na1- pat-eu1- pat-na2-                    X8 '-' X4 '-' X4 '-' X4 '-' X12
llama-key               ^ LLM|                                          D10-20 '|' W20-40
firebase-key              :APA91b                                       W60+
posthog-key             ^ phx_ phs_                                     A32+
crates-io-token       ^ ? cio                                           A32
dependency-track-key    ^ odt_                                          A32-255
zoho-token              ^ 1000.                                         H32 '.' H32
voiceflow-key             VF.DM. VF.WS. VF.                             X24 '.' A16
mongodb-atlas-key         mdb_sa_sk_                                    W40
razorpay-key            ^ rzp_live_ rzp_test_                           A14
wakatime-key              waka_                                         X8 '-' X4 '-' X4 '-' X4 '-' X12
apify-token               apify_api_                                    A36
firecrawl-key           ^ fc-                                           H32
llamaindex-key          ^ llx-                                          A40+
jina-key                ^ jina_                                         A50+
together-key              tgp_v1_                                       W40+
midtrans-key              Mid-server-                                   W20+
braintree-token           access_token$production$ access_token$sandbox$ L16 '$' H32
rootly-key                rootly_                                       H64
samsara-token             samsara_api_                                  A24+
pinterest-token         ^ pina_                                         A32+
ionic-token             ^ ion_                                          L42
telnyx-key              ^ KEY                                           U32 '_' A22
stackhawk-key           ^ hawk.                                         W20 '.' W20
pagarme-key             ^ ak_live_ ak_test_                             A30
clickup-token           ^ pk_                                           D6-10 '_' U32
klaviyo-key             ^ pk_                                           H34
xata-key                ^ xau_                                          A40+
e2b-key                 ^ e2b_                                          H40
inngest-key               signkey-prod- signkey-test- signkey-branch-   H32+
trigger-dev-key         ^ tr_dev_ tr_prod_ tr_stg_ tr_preview_          A18+
paddle-key                pdl_live_apikey_ pdl_sdbx_apikey_             L26 '_' A22 '_' A3
browserbase-key         ^ bb_live_ bb_test_                             W20+
snyk-token                snyk_uat. snyk_sat.                           H8 '.' W20+
launchdarkly-key        ^ api- sdk- mob-                                H8 '-' H4 '-' H4 '-' H4 '-' H12
devcycle-key              dvc_server_ dvc_client_ dvc_mobile_           W20+
persona-key               persona_production_ persona_sandbox_          X8 '-' X4 '-' X4 '-' X4 '-' X12
mercury-token             secret-token:mercury_production_ secret-token:mercury_sandbox_ W20+
yandex-token            ^ y0_ y1_ y2_ y3_                               W50+
yandex-token            ^ t1.9eu                                        W80+ '.' W80+
thunderstore-token      ^ tss_                                          A32
asana-token             ^ 1/                                            D16 ':' H32
vault-token           ^ ? s.                                            A24
twitch-token            ^ oauth:                                        L30
twitter-bearer          ^ AAAAAAAAAAAAAAAAAAAA                          A30+ '%' W20+
segment-token           ^ sgp_                                          A64
ubidots-key             ^ BBFF-                                         A30
beamer-key            ^ ? b_                                            W44
sourcegraph-token       ^ slk_                                          H64
fleetbase-key             flb_live_ flb_test_                           A20
flexport-key            ^ shltm_                                        W40
blynk-token               oa2-client-id_                                W32
close-key               ^ api_                                          A22 '.' A22
teamwork-token            tkn.v1_                                       A60+
volcengine-key          ^ AKLT AKTP                                     W40+
google-hmac-key         ^ GOOG1E                                        U55+
digitalocean-key        ^ DO00                                          U16
logicmonitor-token      ^ lmb_                                          W40+
onfido-token            ^ api_live. api_sandbox. api_live_us. api_live_ca. W11 '.' W32
intra42-secret          ^ s-s4t2ud- s-s4t2af-                           H64
anyscale-key            ^ esecret_                                      L20+
modal-key               ^ ak- as-                                       A22
valtown-token           ^ vtwn_                                         A24+
mem0-key                ^ m0-                                           A40
langchain-key           ^ ls__                                          H32
confluent-key           ^ cflt                                          B60
square-token              sq0idp-                                       W22
mollie-key            ^ ? live_ test_                                   A30
gocardless-token      ^ ? live_                                         W40-42
lob-key               ^ ? live_ test_                                   H35
"""


class Format(NamedTuple):
    """The format of one kind of key, to be matched at one of its anchors."""

    kind: str
    source: bytes
    is_bounded: bool
    """True if no letter or digit may precede the anchor."""
    is_ambiguous: bool
    """True if ordinary names begin with the anchor too."""

    def match(self, data: bytes, index: int) -> re.Match[bytes] | None:
        """Match the format at an index; its pattern is compiled on first use."""
        return _compiled(self.source).match(data, index)


@cache
def _compiled(source: bytes) -> re.Pattern[bytes]:
    return re.compile(source)


class Formats(NamedTuple):
    """All formats: one pattern for the anchors, and the formats that each anchor may begin."""

    anchors: re.Pattern[bytes]
    by_anchor: dict[bytes, tuple[Format, ...]]
    kinds: frozenset[str]

    def beginning_at(self, anchor: bytes, data: bytes, index: int) -> Iterator[Format]:
        """Yield the formats that the anchor at an index may begin."""
        follows_a_letter = index > 0 and data[index - 1 : index].isalnum()
        yield from (shape for shape in self.by_anchor[anchor] if not (shape.is_bounded and follows_a_letter))


@cache
def formats() -> Formats:
    """Return the parsed table."""
    listed: dict[bytes, list[Format]] = {}
    for line in _TABLE.strip().splitlines():
        kind, anchors, items = _read(line)
        bounded, ambiguous = "^" in anchors, "?" in anchors
        for anchor in anchors:
            if anchor not in ("^", "?"):
                shape = Format(kind, _source(anchor, items, bounded), bounded, ambiguous)
                listed.setdefault(anchor.encode(), []).append(shape)
    # The longest anchor is found first; the formats of shorter anchors that it starts with are tried after its own.
    by_anchor = {
        anchor: tuple(
            shape
            for prefix in sorted(listed, key=len, reverse=True)
            if anchor.startswith(prefix)
            for shape in listed[prefix]
        )
        for anchor in listed
    }
    kinds = frozenset(shape.kind for shapes in listed.values() for shape in shapes)
    return Formats(re.compile(_trie(sorted(a.decode() for a in listed)).encode()), by_anchor, kinds)


def _read(line: str) -> tuple[str, list[str], list[str]]:
    words = line.split()
    first = next(index for index, word in enumerate(words) if index and _item(word))
    return words[0], words[1:first], words[first:]


_ITEM = r"([AWULHXDBVC])([0-9]+)(?:(\+)|-([0-9]+))?|'([^']+)'"


def _item(word: str) -> re.Match[str] | None:
    return re.fullmatch(_ITEM, word)


def _source(anchor: str, items: list[str], bounded: bool) -> bytes:
    parts = ["(?<![A-Za-z0-9])" if bounded else "", re.escape(anchor)]
    for index, word in enumerate(items):
        item = _item(word)
        if item is None:
            raise ValueError(f"{word!r} is not an item of the format table.")
        letters, least, open_ended, most, literal = item.groups()
        last = index == len(items) - 1
        if literal:
            parts.append(re.escape(literal))
        elif open_ended or most:
            # Possessive at the end; before a literal the engine may backtrack, at most the given number of characters.
            parts.append(f"{_SETS[letters]}{{{least},{most or _MAX_CHARS}}}{'+' if last else ''}")
        else:
            parts.append(f"{_SETS[letters]}{{{least}}}{'(?![A-Za-z0-9])' if last else ''}")
    return "".join(parts).encode()


def _trie(words: list[str]) -> str:
    """Return one pattern for many literals that checks each first letter once; the longest literal wins."""
    if words == [""]:
        return ""
    groups: dict[str, list[str]] = {}
    for word in words:
        if word:
            groups.setdefault(word[0], []).append(word[1:])
    branches = [re.escape(first) + _trie(suffixes) for first, suffixes in groups.items()]
    if "" in words:
        branches.append("")
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"
