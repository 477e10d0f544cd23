# A quadruped on the ground, held in its posture by twelve PD actuators: in the last of four seconds no motor changes
# its torque by 0.01 N m, and the feet carry the weight.
source "$(dirname "$0")/common.bash" "$@"
cp "$source"/demos/robots/quadruped.{toml,urdf} "$scratch"
cd "$scratch" || exit 1

for leg in front_left front_right rear_left rear_right; do
  for joint in hip=0 thigh=0.8 calf=-1.6; do
    name=${leg}_${joint%=*}
    printf '[[actuator]]\njoint = "%s"\nposition = %s\nstiffness = 80\ndamping = 3\n' "$name" "${joint#*=}"
    printf '[[log]]\nname = "torque %s"\nchannel = "joint_force(%s)"\n' "$name" "$name"
  done
done >>quadruped.toml
cat >>quadruped.toml <<'END'
[[expect]]
value = "trunk.z"
at = 4
is = 0.30
bullet = 0.005
single = 0.005
[[expect]]
value = "norm([trunk.velocity.x, trunk.velocity.y, 0])"
at = 4
is = 0
bullet = 1e-4
single = 1e-3
END
for how in bullet-float64 "bullet-float64 --as multibody" bullet "bullet --as multibody"; do
  # shellcheck disable=SC2086
  expect 0 run quadruped.toml --host $how --csv out.csv --json
  holds '.solver.status == "ok" and ([.solver.expect[].met] | all)'
  awk -F, 'NR == 1 { for (i = 1; i <= NF; ++i) if ($i ~ /^torque/) columns[i] = $i; next }
    $1 > 3 { for (i in columns) if ($i != "") {
      if (!(i in low) || $i + 0 < low[i]) low[i] = $i + 0
      if (!(i in high) || $i + 0 > high[i]) high[i] = $i + 0 } }
    END { for (i in columns) { n++
        if (high[i] - low[i] > 0.01) { print columns[i] " changes by " high[i] - low[i] " N m" > "/dev/stderr"; bad = 1 } }
      exit bad || n != 12 }' out.csv || fail "the torques are not steady on $how"
done
done_testing
