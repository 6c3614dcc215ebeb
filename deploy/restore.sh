#!/usr/bin/env bash
# Brings what deploy/backup.sh kept into volumes that are empty: a new machine, or after
# `docker compose down --volumes`.
#
#   deploy/restore.sh FOLDER
#
# It starts PostgreSQL, refuses to touch a database, artifacts or runs that are there, fills them, and
# starts the rest. The secrets must be those of then, or new ones: PostgreSQL's user gets the one of
# now, users of MLflow keep their passwords of then.
set -euo pipefail

folder=$(realpath -e -- "${1:?the folder that deploy/backup.sh wrote}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
(cd "$folder" && sha256sum --check --quiet SHA256SUMS)

refuse() {
    echo "restore.sh: $1 not empty: \`docker compose down --volumes\` removes what is there" >&2
    exit 3
}
into() { # VOLUME'S SERVICE, PATH, ARCHIVE
    local code=0
    docker compose run --rm --no-deps -T --entrypoint sh "$1" -ec "
        test -z \"\$(ls -A '$2')\" || exit 33
        tar -C '$2' -xzf -" < "$folder/$3" || code=$?
    ((code != 33)) || refuse "$2 is"
    ((code == 0)) || {
        echo "restore.sh: $3 could not be unpacked into $2 (code $code, see above); before the next" \
            "try: \`docker compose down --volumes\`" >&2
        exit 1
    }
}

docker compose up --detach --wait postgres
tables=$(docker compose exec -T postgres psql --username=tabsweep --dbname=mlflow --tuples-only \
    --no-align --command="SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
((tables == 0)) || refuse "the database is"
into mlflow /artifacts artifacts.tar.gz
into ray-head /runs runs.tar.gz
docker compose exec -T postgres pg_restore --username=tabsweep --dbname=mlflow --exit-on-error \
    --single-transaction < "$folder/database.dump"
docker compose up --detach --wait
