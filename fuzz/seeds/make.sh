#!/usr/bin/env bash
# Makes the seed files anew: a tiny run of each kind of posterior, its models, predictions and a checkpoint.
# Usage: fuzz/seeds/make.sh PATH_TO_FEDSI
set -euo pipefail
fedsi=$(realpath "$1")
seeds=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT
cd "$scratch"
python3 - <<'PYTHON'
import random
random.seed(1)
with open("own.csv", "w") as table:
    table.write("a,b,y,c\n")
    for row in range(60):
        k = row % 3
        table.write(f"{random.gauss(k, 0.4):.3f},{random.gauss(-k, 0.4):.3f},{'uvw'[k]},{'p' if row % 2 else 'q'}\n")
PYTHON
settings=(--set data.dataset=files --set data.files.train=own.csv --set data.files.target=y --set data.files.client=c
  --set 'model.body=[{linear=3},"tanh"]' --set checkpoint.rounds=1 --quiet)
for method in fedsi bpfed fedpop; do
  "$fedsi" run --method "$method" --rounds 3 "${settings[@]}" --out "$method"
  cp "$method/clients/0.safetensors" "$seeds/model-$method.safetensors"
  # A run that is interrupted leaves its checkpoint behind.
  "$fedsi" run --method "$method" --rounds 100000 "${settings[@]}" --out "$method-stopped" 2>/dev/null &
  sleep 2
  kill -INT $!
  wait $! || true
  cp "$(find "$method-stopped/checkpoint" -type f | sort | tail -n 1)" "$seeds/checkpoint-$method.bin"
done
cp fedsi/predictions.safetensors "$seeds/predictions.safetensors"
ls -l "$seeds"
