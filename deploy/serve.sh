#!/bin/sh
# Serve a team from the folder this starts in: a bare repository, or an empty folder in which one is made.
#
# ENGRAMBUS_ALLOW_HOST    names that clients call the server by, separated by spaces (needed)
# ENGRAMBUS_TLS_CERT      the certificate and its key, PEM …
# ENGRAMBUS_TLS_KEY
# ENGRAMBUS_BEHIND_PROXY  … or the address or network of the proxy that ends TLS
# ENGRAMBUS_PROJECT       the id in the team's .catalog/project.yaml, for a mirror that is empty
# ENGRAMBUS_LISTEN        the address to listen on [default: 0.0.0.0]
# ENGRAMBUS_PORT          [default: 7171]
set -eu

: "${ENGRAMBUS_ALLOW_HOST:?names that clients call the server by, separated by spaces}"

if [ ! -e .catalog/project.yaml ]; then
    if [ -n "${ENGRAMBUS_PROJECT:-}" ]; then
        engrambus init --mirror --id "$ENGRAMBUS_PROJECT"
    else
        engrambus init --mirror
    fi
fi

set -- up --no-learn --host "${ENGRAMBUS_LISTEN:-0.0.0.0}" --port "${ENGRAMBUS_PORT:-7171}" --log json
for name in $ENGRAMBUS_ALLOW_HOST; do
    set -- "$@" --allow-host "$name"
done
if [ -n "${ENGRAMBUS_BEHIND_PROXY:-}" ]; then
    set -- "$@" --behind-proxy "$ENGRAMBUS_BEHIND_PROXY"
else
    : "${ENGRAMBUS_TLS_CERT:?a certificate, or ENGRAMBUS_BEHIND_PROXY}"
    : "${ENGRAMBUS_TLS_KEY:?the key of the certificate}"
    set -- "$@" --tls-cert "$ENGRAMBUS_TLS_CERT" --tls-key "$ENGRAMBUS_TLS_KEY"
fi
exec engrambus "$@"
