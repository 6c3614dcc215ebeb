#!/usr/bin/env bash
# The secrets of docker-compose.yml: a random one for each that secrets/ does not have.
#
#   deploy/secrets.sh [FOLDER]
#
# To choose one, write it into its file before (without a line's end). PostgreSQL and MLflow keep the
# one that they were made with; docs/cluster.md says how to change it.
#
# Secrets were variables in .env once, and services that were made then still have those: what the .env
# beside FOLDER has under an old name becomes the file, and a line says what may leave .env.
set -euo pipefail
umask 077

folder=${1:-$(dirname "${BASH_SOURCE[0]}")/../secrets}
settings=$(dirname "$folder")/.env

old() { # VARIABLE, FILE: what .env has, without quotes; nothing where it has none
    local value single="^'([^']*)'\$" double='^"([^"\$`]*)"$' plain="^[^\"'\$\`\\\\#]*\$"
    [[ -r $settings ]] || return 0
    value=$(sed -nE "s/^[[:space:]]*(export[[:space:]]+)?$1=[[:space:]]*//p" "$settings" | tail -n 1)
    value=${value%"${value##*[![:space:]]}"} # no blanks at the end
    if [[ $value =~ $single || $value =~ $double ]]; then
        value=${BASH_REMATCH[1]}
    elif ! [[ $value =~ $plain ]]; then # docker has rules of its own for these
        echo "secrets.sh: $1 in $settings has a quote, a backslash, a \$ or a # in it: write what it stands for" \
            "into $2 (without a line's end), remove the line and start this again" >&2
        exit 2
    fi
    printf %s "$value"
}

mkdir -p "$folder"
chmod 700 "$folder" # nobody else on this machine gets to the files
for pair in postgres_password=POSTGRES_PASSWORD ray_auth_token=RAY_AUTH_TOKEN \
    mlflow_admin_password=MLFLOW_AUTH_ADMIN_PASSWORD mlflow_secret_key=MLFLOW_FLASK_SERVER_SECRET_KEY \
    mlflow_tracking_password=MLFLOW_TRACKING_PASSWORD; do
    file=$folder/${pair%%=*} variable=${pair#*=}
    if [[ ! -s $file ]]; then
        value=$(old "$variable" "$file")
        if [[ -n $value ]]; then
            printf %s "$value" > "$file"
            echo "secrets.sh: made $file from $variable in $settings; remove that line, nothing reads it any more"
            [[ $variable != MLFLOW_TRACKING_PASSWORD ]] \
                || echo "secrets.sh: and put there: MLFLOW_TRACKING_PASSWORD_FILE=./secrets/${file##*/}"
        elif [[ $variable != MLFLOW_TRACKING_PASSWORD ]]; then # without it: the administrator's
            od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > "$file"
            echo "secrets.sh: made $file"
        fi
    fi
    [[ ! -e $file ]] || chmod 444 "$file" # the users inside the containers have other numbers
done
if [[ -r $settings ]] && grep -q '^RAY_SHM_SIZE=' "$settings"; then
    echo "secrets.sh: nothing reads RAY_SHM_SIZE in $settings any more: .env.example has one for each kind of node"
fi
