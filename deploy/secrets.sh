#!/usr/bin/env bash
# The secrets of docker-compose.yml: a random one for each that secrets/ does not have.
#
#   deploy/secrets.sh [FOLDER]
#
# To choose one, write it into its file before (without a line's end). PostgreSQL and MLflow keep the
# one that they were made with; docs/cluster.md says how to change it.
set -euo pipefail
umask 077

folder=${1:-$(dirname "${BASH_SOURCE[0]}")/../secrets}
mkdir -p "$folder"
chmod 700 "$folder" # nobody else on this machine gets to the files
for name in postgres_password ray_auth_token mlflow_admin_password mlflow_secret_key; do
    if [[ ! -s $folder/$name ]]; then
        od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > "$folder/$name"
        echo "secrets.sh: made $folder/$name"
    fi
done
chmod 444 "$folder"/* # the users inside the containers have other numbers
