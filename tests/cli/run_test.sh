# `linchpin run`: the numbers it writes are the motion and the forces, and a file is whole or not there.
source "$(dirname "$0")/common.bash" "$@"
scene=$source/demos/scenes/pendulum.bullet
csv=$scratch/motion.csv

echo old >"$csv"
expect 0 run "$scene" --csv "$csv"
prints 'exact constraints|largest gap'
[ "$(wc -l <"$csv")" -eq 482 ] || fail "$(wc -l <"$csv") lines, not a header, 480 steps and the last state"
head -n 1 "$csv" | grep -q '^t \[s\],bar.x \[m\],.*,bar.wz \[rad/s\],pivot.x \[m\],.*,hinge.gap \[m\],hinge.Fx \[N\],.*,hinge.Mz \[N m\]$' ||
  fail "header: $(head -n 1 "$csv")"
ls "$scratch" | grep -q part && fail "a temporary file was left behind"

# Every row against the force of a compound pendulum at that row's state: F on the pivot = m (g - a of the bar's centre).
# Inertia of a 1 x 0.1 x 0.1 m box of 2 kg about the pivot: m (1.01/12 + 1/4), to 1e-7: the scene keeps shapes in floats.
theory='
  BEGIN { m = 2; g = 9.81; I = m * (1.01 / 12 + 0.25); worst = 0; pi = 3.141592653589793 }
  NR == 1 { for (i = 1; i <= NF; ++i) at[$i] = i; next }
  $(at["hinge.Fx [N]"]) == "" { next }
  {
    x = $(at["bar.x [m]"]); y = $(at["bar.y [m]"]); w = $(at["bar.wz [rad/s]"])
    alpha = -m * g * x / I
    fx = m * (alpha * y + w * w * x); fy = m * (-g - alpha * x + w * w * y)
    d = sqrt(($(at["hinge.Fx [N]"]) - fx) ^ 2 + ($(at["hinge.Fy [N]"]) - fy) ^ 2) / sqrt(fx * fx + fy * fy)
    if (d > worst) worst = d
    ++n
  }
  END { printf "%d rows, worst %.3g\n", n, worst; exit !(n == 480 && worst < limit) }'
LC_ALL=C awk -F, -v limit=1e-7 "$theory" "$csv" >"$scratch/awk" || fail "forces against theory: $(cat "$scratch/awk")"
expect 0 run "$scene" --host bullet --csv "$csv"
LC_ALL=C awk -F, -v limit=1e-4 "$theory" "$csv" >"$scratch/awk" || fail "on the bullet host: $(cat "$scratch/awk")"
# Bullet's own, a mean over the step, is off by O(dt).
expect 0 run "$scene" --solver bullet:si --csv "$csv"
LC_ALL=C awk -F, -v limit=0.3 "$theory" "$csv" >"$scratch/awk" || fail "bullet:si: $(cat "$scratch/awk")"

# Seventeen digits: the gaps in the file are the gaps in the report.
expect 0 run "$scene" --csv "$csv" --duration 1 --json
holds '.schema == 1 and .csv != null and .solver.name == "exact" and .solver.steps == 240 and (.solver.summary | length) > 50'
largest=$(LC_ALL=C awk -F, 'NR == 1 { for (i = 1; i <= NF; ++i) if ($i == "hinge.gap [m]") at = i; next } $at > m { m = $at } END { printf "%.17g", m }' "$csv")
holds "(.solver.max_gap_m - $largest | fabs) <= 1e-18"

# Same input, same bytes.
cp "$csv" "$scratch/first.csv"
expect 0 run "$scene" --csv "$csv" --duration 1
cmp -s "$csv" "$scratch/first.csv" || fail "two runs differ"

# A run that cannot start leaves the old file alone.
expect 3 run "$scratch/nothing.bullet" --csv "$csv"
cmp -s "$csv" "$scratch/first.csv" || fail "a failed run touched the file"
done_testing
