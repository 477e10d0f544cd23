# Limits of robots' joints at any span: bodies, multibodies and bare stop at the same angle, on both sides, without rebound.
source "$(dirname "$0")/common.bash" "$@"

# A wheel about z, or a carriage along z, with what limits a line of the file gives.
robot() { # type lower upper
  cat >"$scratch/robot.urdf" <<URDF
<robot name="robot">
  <link name="base"/>
  <link name="part"><inertial><origin xyz="0.2 0 0"/><mass value="1"/>
    <inertia ixx="0.1" iyy="0.1" izz="0.06" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="pin" type="$1"><parent link="base"/><child link="part"/><axis xyz="0 0 1"/>
    <limit lower="$2" upper="$3" effort="100" velocity="100"/><dynamics damping="0.05"/></joint>
</robot>
URDF
}
# For 6 s towards the upper limit, and then to the lower one. 0.5 N m or N hold it there.
scene() { # key start as
  cat >"$scratch/robot.toml" <<TOML
schema = 2
[world]
gravity = [0, 0, 0]
duration = 12
[model]
urdf = "robot.urdf"
as = "$3"
joints = { pin = $2 }
[[actuator]]
joint = "pin"
$1 = "0.5*cos(pi*t/12)/abs(cos(pi*t/12))"
[[log]]
name = "q"
channel = "joint_position(pin)"
[[log]]
name = "drive"
channel = "joint_force(pin)"
[[log]]
name = "moment"
channel = "moment(pin, part)"
TOML
}
# The moment about the axis is the damping of the file at the small rates of a rest in single precision.
# Rests at each limit, was never far beyond it, and never left it again by more than `rebound`.
stops() { # file lower upper excess rebound
  LC_ALL=C awk -F, -v lower="$2" -v upper="$3" -v excess="$4" -v rebound="$5" '
    NR == 1 { for (i = 1; i <= NF; ++i) { if ($i ~ /^q/) q = i; if ($i ~ /^drive/) drive = i; if ($i ~ /^moment.z/) moment = i } next }
    { if ($q > upper + excess || $q < lower - excess) bad = "passes a limit: " $q
      if ($1 < 6 && $q >= upper) high = 1
      if ($1 < 6 && high && $q < upper - rebound) bad = "rebounds from the upper limit to " $q
      if ($q <= lower && $1 > 6) low = 1
      if (low && $q > lower + rebound) bad = "rebounds from the lower limit to " $q
      if ($1 > 5.95 && $1 < 5.98) { if ($q > upper + 1e-3 || $q < upper - rebound) bad = "rests at " $q " at the upper limit"
        if ($drive < 0.495 || $drive > 0.505) bad = "has a drive of " $drive }
      if ($1 > 11.95 && $1 < 11.98) { if ($q < lower - 1e-3 || $q > lower + rebound) bad = "rests at " $q " at the lower limit"
        if ($drive > -0.495 || $drive < -0.505) bad = "has a drive of " $drive
        if ($moment > 5e-3 || $moment < -5e-3) bad = "its pin has a moment of " $moment " about its own axis" } }
    END { if (!high) bad = "does not reach the upper limit"; if (!low) bad = "does not reach the lower limit"
      if (bad) { print bad; exit 1 } }' "$1" >"$scratch/why" || fail "$1: $(cat "$scratch/why")"
}

robot revolute -1 1
if "$linchpin" check "$scratch/robot.urdf" 2>&1 | grep -q "built without URDF"; then
  echo "skipped: linchpin was built without URDF"
  done_testing
fi

# Whole turns, more than whole turns, one turn around an angle that is not 0, and spans that Bullet's hinge has by itself.
while read -r lower upper start; do
  robot revolute "$lower" "$upper"
  for as in bodies multibody; do
    scene torque "$start" $as
    for host in bullet-float64 bullet; do
      expect 0 run "$scratch/robot.toml" --host $host --csv "$scratch/$as-$host.csv" --json
      stops "$scratch/$as-$host.csv" "$lower" "$upper" 0.06 0.12
      holds '.solver.native | length == 1'
    done
  done
  expect 0 run "$scratch/robot.toml" --host bare --csv "$scratch/bare.csv" --json
  stops "$scratch/bare.csv" "$lower" "$upper" 1e-9 1e-9
  holds '[.solver.mode_changes[] | select(.what == "engages") | .constraint] == ["pin.upper", "pin.lower"]'
  holds '.solver.left_out | map(select(test("limits"))) == []'
done <<'END2'
-6.283185307179586 6.283185307179586 0
-9 9.5 0
-1 7 0
-1 7 6.5
-3 3.2 0
-0.5 0.7 0
END2

robot prismatic -0.4 0.7
for as in bodies multibody; do
  scene force 0 $as
  expect 0 run "$scratch/robot.toml" --host bullet-float64 --csv "$scratch/$as.csv"
  stops "$scratch/$as.csv" -0.4 0.7 0.06 0.12
done
expect 0 run "$scratch/robot.toml" --host bare --csv "$scratch/bare.csv"
stops "$scratch/bare.csv" -0.4 0.7 1e-9 1e-9
# The force of Bullet's limit acts at the centre of mass, 0.2 m from the rail. The rail has the moment of this pair.
for file in bare:0 bodies:-0.1 multibody:-0.1; do
  moment=$(column "$scratch/${file%:*}.csv" 'pin.My [N m]' 2868)
  awk -v got="$moment" -v is="${file#*:}" 'BEGIN { d = got - is; exit !(d < 1e-6 && d > -1e-6) }' ||
    fail "${file%:*}: the moment of the rail is $moment, not ${file#*:}"
done

# A scene in which no limit is reached has the motion that it has without limits, to the last digit.
robot revolute -40 40
scene torque 0 bodies
expect 0 run "$scratch/robot.toml" --host bare --duration 2 --csv "$scratch/limits.csv"
sed -i 's/type="revolute"/type="continuous"/; s/lower="-40" upper="40"//' "$scratch/robot.urdf"
expect 0 run "$scratch/robot.toml" --host bare --duration 2 --csv "$scratch/none.csv"
for title in 'part.qw' 'part.wz [rad/s]' 'q [rad]' 'pin.Fx [N]'; do
  [ "$(column "$scratch/limits.csv" "$title" 480)" = "$(column "$scratch/none.csv" "$title" 480)" ] ||
    fail "limits that are not reached change $title"
done

# What check says is true for the host of the scene.
robot revolute -1 1
scene torque 0 bodies
expect 0 check "$scratch/robot.toml"
prints '^the host bare holds the limits of joints by unilateral constraints: pin\.lower, pin\.upper$'
expect 0 check "$scratch/robot.toml" --json
holds '.native == [] and .limits == ["pin.lower", "pin.upper"]'
sed 's/^\[world\]/&\nhost = "bullet"/' "$scratch/robot.toml" >"$scratch/bullet.toml"
expect 0 check "$scratch/bullet.toml"
prints '^left to the native solver: pin: limits -1 to 1 rad$'
sed 's/pin = 0/pin = 1.5/' "$scratch/robot.toml" >"$scratch/beyond.toml"
expect 3 run "$scratch/beyond.toml"
says '"pin" = 1\.5 is beyond the limits of the joint, which goes from -1 to 1 rad\. Give a position between them'

# A bar that falls onto its limit with 15 rad/s passes it by more than 0.04 rad, and returns to it.
cat >"$scratch/fast.urdf" <<'URDF'
<robot name="fast"><link name="stand"/>
  <link name="bar"><inertial><origin xyz="0.5 0 0"/><mass value="2"/><inertia ixx="0.004" iyy="0.17" izz="0.17" ixy="0" ixz="0" iyz="0"/></inertial></link>
  <joint name="pin" type="revolute"><parent link="stand"/><child link="bar"/><axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="60" velocity="20"/></joint>
</robot>
URDF
cat >"$scratch/fast.toml" <<'TOML'
schema = 2
[world]
duration = 3
[model]
urdf = "fast.urdf"
joints = { pin = 0.999 }
rates = { pin = 15 }
[[expect]]
value = "joint_position(pin)"
at = 3
is = 1
tolerance = 1e-3
single = 1e-3
TOML
for how in bare bullet-float64 "bullet-float64 --as multibody" bullet "bullet --as multibody"; do
  # shellcheck disable=SC2086
  expect 0 run "$scratch/fast.toml" --host $how
done

# Joints of a compound joint stop on every host: a universal joint whose second axis goes from -0.3 to 0.5 rad.
cat >"$scratch/cross.urdf" <<'URDF'
<robot name="cross"><link name="world"/><link name="m"/>
<link name="bar"><inertial><origin xyz="0 0 -0.4"/><mass value="1"/><inertia ixx="0.1" iyy="0.1" izz="0.05"/></inertial></link>
<joint name="first" type="continuous"><parent link="world"/><child link="m"/><axis xyz="1 0 0"/></joint>
<joint name="second" type="revolute"><parent link="m"/><child link="bar"/><axis xyz="0 1 0"/>
<limit lower="-0.3" upper="0.5" effort="1" velocity="1"/><dynamics damping="0.2"/></joint></robot>
URDF
for end in "1 0.5" "-1 -0.3"; do
  read -r way stop <<<"$end"
  # Gravity along x presses the bar against a limit: its angle is that of the limit.
  cat >"$scratch/cross.toml" <<TOML
schema = 2
[world]
gravity = [$((-way * 9)), 0, 0]
duration = 3
[model]
urdf = "cross.urdf"
[[expect]]
value = "atan2(bar.axis(0, 0, 1).x, bar.axis(0, 0, 1).z)"
at = 3
is = $stop
tolerance = 1e-4
single = 1e-3
TOML
  for host in bare bullet-float64 bullet "bullet-float64 --as multibody"; do
    # shellcheck disable=SC2086
    expect 0 run "$scratch/cross.toml" --host $host --json
    holds '[.solver.expect[].met] | all'
  done
done

# Equal limits lock the joint. rattle has no impacts, so the run states that it leaves the limits out.
robot revolute 0 0
scene torque 0 bodies
expect 0 run "$scratch/robot.toml" --host bare --csv "$scratch/locked.csv"
[ "$(column "$scratch/locked.csv" 'pin.limits.gap [rad]' 480)" ] || fail "no constraint pin.limits"
LC_ALL=C awk -F, 'NR == 1 { for (i = 1; i <= NF; ++i) if ($i ~ /^q/) q = i; next } $q > 1e-9 || $q < -1e-9 { exit 1 }' \
  "$scratch/locked.csv" || fail "a locked joint moves"
robot revolute -1 1
printf '[solver]\nmethod = "rattle"\n' >>"$scratch/robot.toml"
expect 0 run "$scratch/robot.toml" --host bare --duration 0.1
prints 'the host bare leaves out: pin: limits -1 to 1 rad'
expect 0 explain "$scratch/robot.toml" --json
holds '[.constraints[].name] == ["pin"]'
done_testing
