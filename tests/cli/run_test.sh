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
holds '.schema == 2 and .csv != null and .solver.name == "exact" and .solver.steps == 240 and (.solver.summary | length) > 50'
largest=$(LC_ALL=C awk -F, 'NR == 1 { for (i = 1; i <= NF; ++i) if ($i == "hinge.gap [m]") at = i; next } $at > m { m = $at } END { printf "%.17g", m }' "$csv")
holds "(.solver.max_gap_m - $largest | fabs) <= 1e-18"

# Same input, same bytes.
cp "$csv" "$scratch/first.csv"
expect 0 run "$scene" --csv "$csv" --duration 1
cmp -s "$csv" "$scratch/first.csv" || fail "two runs differ"

# A robot's joint stops at its limits, each on its own side, on every host.
cat >"$scratch/arm.urdf" <<'URDF'
<robot name="arm">
  <link name="base"/>
  <link name="arm">
    <inertial>
      <origin xyz="0.5 0 0"/><mass value="1"/><inertia ixx="0.01" iyy="0.09" izz="0.09" ixy="0" ixz="0" iyz="0"/>
    </inertial>
  </link>
  <joint name="pin" type="revolute">
    <parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
    <limit lower="-0.3" upper="0.7" effort="10" velocity="10"/>
  </joint>
</robot>
URDF
hosts="bare bullet bullet-float64"
if "$linchpin" check "$scratch/arm.urdf" 2>&1 | grep -q "built without URDF"; then
  hosts=
else
  expect 0 run "$scratch/arm.urdf"
  prints 'pin.upper: is open at the start, engages at 0'
  sed 's|izz="0.09"|izz="0.5"|; s|</inertial>|</inertial><collision><geometry><mesh filename="package://x/a.stl"/></geometry></collision>|' \
    "$scratch/arm.urdf" >"$scratch/odd.urdf"
  expect 0 run "$scratch/odd.urdf"
  says 'odd.urdf:[0-9]+:[0-9]+: warning: .*no mass has this inertia'
  says 'note: link .* \(package://x/a.stl\) has a collision mesh whose file is missing'
  printf 'schema = 2\n[model]\nurdf = "arm.urdf"\n[[sensor]]\nname = "my sensor"\njoint = "pin"\n' >"$scratch/sensor.toml"
  expect 3 run "$scratch/sensor.toml"
  says 'sensor.toml:5:8: error: .*letters, digits and _ only, got "my sensor"'
fi
for host in $hosts; do
  for gravity in -9.81 9.81; do
    printf 'schema = 2\n[world]\nhost = "%s"\ngravity = [0, 0, %s]\nduration = 3\n[model]\nurdf = "arm.urdf"\nfixed_base = true\n' \
      "$host" "$gravity" >"$scratch/arm.toml"
    for as in bodies multibody; do
      expect 0 run "$scratch/arm.toml" --csv "$scratch/arm.csv" --as $as
      # About y by an angle, downwards if positive: z = -sin(angle)/2.
      LC_ALL=C awk -F, -v stop="$([[ $gravity == -* ]] && echo 0.7 || echo -0.3)" '
        NR == 1 { for (i = 1; i <= NF; ++i) if ($i == "arm.z [m]") at = i; next } { z = $at }
        END { d = z + sin(stop) / 2; exit !(d < 0.01 && d > -0.01) }' "$scratch/arm.csv" || fail "$host, $as: the arm is not at its stop under gravity $gravity"
    done
  done
done

# A robot nobody here wrote, its four loops closed, on the ground under its motors.
if [ -f "$shared/robots/minitaur.urdf" ] && [ -n "$hosts" ]; then
  cp "$shared/robots/minitaur.urdf" "$source/tests/scenes/minitaur.toml" "$scratch"
  for host in bullet:1e-5 bullet-float64:1e-9; do
    expect 0 run "$scratch/minitaur.toml" --host "${host%:*}" --duration 3 --json
    holds ".solver.max_gap_m <= ${host#*:} and .solver.max_gap_m > 0 and .solver.fallbacks == 0 and .solver.steps == 720"
  done
else
  echo "skipped: $shared/robots/minitaur.urdf is not here, or linchpin was built without URDF"
fi

# One number for the gap, in words and as JSON, which is the table's of compare.
expect 0 run "$source/demos/scenes/four-bar.toml" --host bullet-float64 --json
gap=$(jq -r '.solver | "\(.max_gap_m) \(.max_gap_rad)"' "$scratch/out" | awk '{ printf "largest gap %.3g m, %.3g rad", $1, $2 }')
expect 0 run "$source/demos/scenes/four-bar.toml" --host bullet-float64
grep -qF "$gap" "$scratch/out" || fail "not '$gap' but $(grep 'largest gap' "$scratch/out")"

# A run that cannot start leaves the old file alone.
expect 3 run "$scratch/nothing.bullet" --csv "$csv"
cmp -s "$csv" "$scratch/first.csv" || fail "a failed run touched the file"
done_testing
