# MJCF files: MuJoCo reads and runs them, and linchpin makes their equalities exact.
source "$(dirname "$0")/common.bash" "$@"

# ---- without the worker: what to do
cat >"$scratch/four-bar.xml" <<'XML'
<!-- The root element decides, not the name. -->
<mujoco model="four-bar">
  <option timestep="0.002"/>
  <default>
    <geom type="capsule" size="0.02" contype="0" conaffinity="0"/>
    <joint type="hinge" axis="0 1 0"/>
  </default>
  <worldbody>
    <body name="crank">
      <joint name="crank_pin"/>
      <geom fromto="0 0 0 0.1694 0 0.2476" mass="1"/>
      <body name="coupler" pos="0.1694 0 0.2476">
        <joint name="elbow"/>
        <geom fromto="0 0 0 0.7216 0 0.3455" mass="2"/>
      </body>
    </body>
    <body name="rocker" pos="0.8 0 0">
      <joint name="rocker_pin"/>
      <geom fromto="0 0 0 0.091 0 0.5931" mass="1.5"/>
    </body>
  </worldbody>
  <equality>
    <connect name="loop" body1="coupler" body2="rocker" anchor="0.7216 0 0.3455"/>
  </equality>
</mujoco>
XML
mkdir "$scratch/alone"
cp "$linchpin" "$scratch/alone/linchpin"
"$scratch/alone/linchpin" run "$scratch/four-bar.xml" >"$scratch/out" 2>"$scratch/err"
[ $? -eq 2 ] || fail "without a worker: $(cat "$scratch/err")"
says 'the program for MuJoCo, which reads MJCF files, was not found .*"scripts/setup --mujoco", and build linchpin again'
[ -x "$bin/linchpin-worker-mujoco" ] || {
  echo "skipped: no linchpin-worker-mujoco was built (scripts/setup --mujoco)"
  done_testing
}
cd "$scratch" || exit 1

# ---- compare: a row per solver, with the columns that scenes have
expect 0 compare four-bar.xml --json --csv table
[ -s err ] && fail "progress or noise where stderr is no terminal: $(cat err)"
holds '[.solvers[].name] == ["exact", "mujoco", "mujoco:stiff"] and ([.solvers[] | .precision == "double" and .status == "ok" and .steps == 1000 and .ns_per_step > 0] | all)' \
  '.schema == 2 and .dt == 0.002 and .duration == 2 and .bodies == 3 and .joints == 4 and .gravity == [0, 0, -9.81] and .gravity_from == "file"' \
  '.solvers[0] | .max_gap_m <= 1e-9 and .fallbacks == 0 and .native == [] and .force_rms_error_rel < 1e-7 and .force_samples > 100 and .force_basis == "coordinates"' \
  '.solvers[1] | .max_gap_m > 1e-3 and .max_gap_m < 1e-2 and .max_gap_joint == "loop" and .force_rms_error_rel > 1e-3' \
  '.solvers[2] | .max_gap_m > 1e-5 and .max_gap_m < 1e-3' \
  '[.solvers[] | .rank.rows == 3 and .rank.rank == 2 and .rank.redundant == ["loop"] and .max_energy_error_J < 0.2] | all' \
  '.solvers[1].method.stabilisation == "soft constraints, as the model has them" and (.solvers[1].method.host | test("^MuJoCo [0-9.]+$"))' \
  '.solvers[2].method.stabilisation | test("solref=\"0.004 1\" solimp=\"0.9999 0.9999 0.001\"")'
# The tables have states, gaps, energy, and the forces of the equality and of all joints by name.
for solver in exact mujoco mujoco-stiff; do
  rectangular "table-$solver-double.csv"
  # The first state is the same for all of them, and so are the forces there, but for the softness of the rows.
  awk -v x="$(column "table-$solver-double.csv" 'crank_pin.Fz [N]' 1)" 'BEGIN {exit !(x > 17.3 && x < 17.6)}' ||
    fail "$solver: another force on the crank at the start"
done
[ "$(column table-exact-double.csv 'crank_pin.My [N m]' 400 | awk '{print ($1 < 1e-9 && $1 > -1e-9)}')" = 1 ] ||
  fail "a free hinge transmits a moment along its axis"
expect 0 compare four-bar.xml
prints '^In double precision, exact keeps every joint closed to .* The best native solver, mujoco:stiff, leaves a gap of'
prints '^mujoco +double .* ok$'
prints '^mujoco:stiff +double .* ok$'
prints 'the joints have 3 equations, and 2 of them are independent\. Redundant: loop'
prints 'forces are compared along the coordinates of the model'
expect 0 compare four-bar.xml --with exact --dt 1/1000 --duration 0.1 --gravity 0,0,0 --json
holds '.dt == 0.001 and .gravity == [0, 0, 0] and .gravity_from == "option" and .solvers[0].steps == 100 and .solvers[0].max_energy_error_J == 0'

# ---- run: the same keys as other hosts, files for viewers, and the forces in them
expect 0 run four-bar.xml --json --csv run.csv --record run.rec --report page.html --gltf run.glb --mcap run.mcap
holds '.host == "mujoco" and .solver.name == "exact" and .solver.max_gap_m <= 1e-9 and .solver.laws == [] and .solver.energy_gains == []'
for file in run.csv run.rec page.html run.glb run.mcap; do [ -s $file ] || fail "run: no $file"; done
rectangular run.csv
expect 0 report run.rec --out again.html
expect 0 run four-bar.xml
prints '^linchpin in MuJoCo [0-9.]+$'
prints 'redundant constraints, which other constraints imply: loop'
expect 0 run four-bar.xml --solver mujoco
prints '^MuJoCo [0-9.]+ alone \(mujoco\)$'
prints 'energy .* J at the start'
expect 0 run four-bar.xml --solver mujoco:stiff --host mujoco
# Everything but the time is the same the next time.
for n in 1 2; do
  expect 0 compare four-bar.xml --duration 0.2 --json
  jq 'del(.solvers[].ns_per_step)' out >again$n
done
cmp -s again1 again2 || fail "two runs differ"

# ---- welds, couplings of joints, contacts, actuators and names that are missing
cat >mixed.xml <<'XML'
<mujoco>
  <worldbody>
    <geom type="plane" size="3 3 .1"/>
    <body name="box" pos="0 0 .5"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/></body>
    <body name="lid" pos="0 0 .75"><freejoint/><geom type="box" size=".1 .1 .1" mass="1"/></body>
    <body pos="1 0 .5"><joint name="j1" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" contype="0" conaffinity="0"/>
      <body pos=".3 0 0"><joint name="j2" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 .3 0 0" size=".02" contype="0" conaffinity="0"/></body></body>
  </worldbody>
  <equality><weld body1="box" body2="lid"/><joint joint1="j1" joint2="j2" polycoef="0 0.5 0.1 0 0"/></equality>
</mujoco>
XML
expect 0 compare mixed.xml --duration 1 --json --csv mixed
holds '.solvers[0] | .max_gap_m <= 1e-9 and .max_gap_rad <= 1e-9 and .force_rms_error_rel < 1e-7' \
  '.solvers[1] | .max_gap_m > 1e-4 and .max_gap_rad > 1e-3' \
  '[.solvers[].energy_note | startswith("contacts from step ")] | all'
rectangular mixed-exact-double.csv
head -n 1 mixed-exact-double.csv | grep -q '^t \[s\],box\.x \[m\].*,body#3\.x \[m\].*,equality#0\.gap \[m\],equality#1\.gap \[rad\],' || fail "names: $(head -n 1 mixed-exact-double.csv)"

# ---- what is refused
sed 's/<option /<option integrator="RK4" /' four-bar.xml >rk4.xml
expect 4 run rk4.xml
says 'linchpin run: exact: the integrator RK4 takes stages within a step'
expect 4 compare rk4.xml --duration 0.1 --json
holds '(.solvers[0].status | startswith("refused: the integrator RK4")) and .solvers[1].status == "ok"'
sed 's/axis="0 1 0"/axes="0 1 0"/' four-bar.xml >bad.xml
expect 3 run bad.xml
says '^bad\.xml:6:5: error: MuJoCo: .*unrecognized attribute: .axes.'
says '^ +<joint type="hinge" axes'
[ -s out ] && fail "stdout of a file that is wrong: $(cat out)"
sed 's/body2="rocker"/body2="rcoker"/' four-bar.xml >unknown.xml
expect 3 compare unknown.xml
says '^unknown\.xml.*: error: MuJoCo: .*rcoker'
head -c 200 four-bar.xml >cut.xml
expect 3 run cut.xml
says '^cut\.xml.*: error: MuJoCo: '
echo '<mujoco><worldbody/></mujoco>' >empty.xml
expect 3 run empty.xml
says '^empty\.xml: error: holds no body beside the world'
expect 2 run four-bar.xml --solver mujoco:stif
says 'there is no solver "mujoco:stif"; did you mean "mujoco:stiff"\?'
expect 2 run four-bar.xml --solver bullet:si
says 'solver "bullet:si" is Bullet.s, and MuJoCo runs this file. Known for MJCF files: exact, mujoco, mujoco:stiff'
expect 2 compare "$source/demos/scenes/winch.toml" --with exact,mujoco
says 'solver "mujoco" is MuJoCo.s, which runs MJCF files only'
expect 2 run four-bar.xml --host bullet
says '--host is "bullet", expected mujoco'
expect 2 run "$source/demos/scenes/winch.toml" --host mujoco
says '--host mujoco runs MJCF files only'
expect 2 run four-bar.xml --method rk4
says 'set integrator in <option> of the file'
expect 2 run four-bar.xml --as bodies
says '--as applies to robots in Bullet'
expect 2 compare four-bar.xml --precision both
says '--precision applies to Bullet'
expect 2 run four-bar.xml --csv four-bar.xml
expect 3 check four-bar.xml
says 'is MJCF, the format of MuJoCo. Only "linchpin run" and "linchpin compare" read it'

# ---- the root element decides: a URDF with a <mujoco> element stays a URDF, and MJCF may have any name
cp four-bar.xml four-bar.urdf
expect 0 run four-bar.urdf --duration 0.1 --json
holds '.host == "mujoco"'
sed 's|<robot[^>]*>|&<mujoco><compiler/></mujoco>|' "$source/demos/scenes/four-bar-robot.urdf" >robot.urdf
expect 0 run robot.urdf --duration 0.1 --json
holds '.host == "bare"'
[ -e MUJOCO_LOG.TXT ] && fail "MuJoCo wrote a log"
done_testing
