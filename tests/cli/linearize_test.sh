# `linchpin linearize` and `sweep --linearize` against published eigenvalues and closed forms, and what they refuse.
# Called as: linearize_test.sh <bin dir> <source dir>
source "$(dirname "$0")/common.bash" "$@"
scenes=$source/demos/scenes
cd "$scratch" || exit 1

# The benchmark bicycle at 5 m/s: castering, capsize and weave modes of Meijaard, Papadopoulos, Ruina and Schwab (2007), table 2.
expect 0 linearize "$scenes/bicycle.toml" --json
holds '.steady and .displacements == 7 and .velocities == 3'
holds '[.modes[].eigenvalue | select(.[0] != 0)] | sort | . as $all |
  [[-14.07838969279822, 0], [-0.77534188219585, -4.46486771378823], [-0.77534188219585, 4.46486771378823], [-0.32286642900409, 0]] |
  [range(4) as $i | range(2) as $k | ($all[$i][$k] - .[$i][$k]) | fabs] | max < 1e-10'
holds '[.modes[] | select(.eigenvalue == [0, 0])] | length == 6'
holds '(.A | length) == 10 and (.A[0] | length) == 10 and (.B | length) == 10 and (.B[0] | length) == 3 and (.C | length) == 3'
holds '.coordinates == ["head", "rear hub", "front hub"] and .coordinate_units == ["rad", "rad", "rad"]'
expect 0 linearize "$scenes/bicycle.toml"
prints '^the motion is steady$'
prints 'eigenvalue -0.7753419 ± 4.464868i 1/s, .*oscillates at 4.464868 rad/s'
prints '^6 neutral modes with the eigenvalue 0'

# Its weave becomes stable at 4.29238253634111 m/s, and its capsize unstable at 6.02426201538837 m/s.
expect 0 sweep "$scenes/bicycle.toml" --set v=4.2923825,4.2923826,6.0242620,6.0242621 --linearize --out speed.csv
for row in 1 2 3 4; do
  rate=$(column speed.csv 'largest real part [1/s]' $row)
  grows=$([[ $rate != 0 && $rate != -* ]] && echo yes || echo no)
  [[ $grows == $([[ $row == [14] ]] && echo yes || echo no) ]] || fail "row $row of the speeds: $rate"
done

# A double pendulum at rest: w^2 = (2 -+ sqrt(2)) g/l, in bodies and in its angles.
for scene in double-pendulum double-pendulum-angles; do
  expect 0 linearize "$scenes/$scene.toml" --equilibrium --json
  holds '.steady'
  holds '[.modes[] | select(.eigenvalue[1] > 0) | .frequency_rad_s] | unique | length >= 2 and
    (min - (9.81 * (2 - (2 | sqrt)) | sqrt) | fabs) < 1e-9 and (max - (9.81 * (2 + (2 | sqrt)) | sqrt) | fabs) < 1e-9'
done
# A steady top, and a disk that rolls in a circle: the frame in which they are steady.
expect 0 linearize "$scenes/steady-top.toml" --json
holds '.steady and .frame_angular_velocity[2] > 1'
expect 0 linearize "$scenes/rolling-disk-steady.toml"
prints '^the motion is steady in a frame that rotates with \(0, 0, -1.07365\) rad/s$'
# A bead on a hoop that a motor turns: w_small = w sin(theta).
expect 0 linearize "$scenes/rotating-hoop.toml" --equilibrium --json
holds '.steady'

# The page: all modes but the neutral ones, of a pair the first, with the pose and the shapes by which it is drawn.
page() { sed -n 's|.*<script type="application/json" id="recording">\(.*\)</script>.*|\1|p' "$1" >out; }
expect 0 linearize "$scenes/bicycle.toml" --report modes.html
prints '^wrote modes.html$'
grep -qF '<title>the benchmark bicycle – linchpin modes</title>' modes.html || fail "the title of the page"
page modes.html
holds '.kind == "linchpin modes" and .verb == "linearize" and .linearization.stability == "marginal" and .neutral_modes == 6 and .at_rest == false'
holds '[.modes[].eigenvalue[1] > 0] == [false, false, true] and (.modes[2].frequency_rad_s - 4.46486771378823 | fabs) < 1e-10'
holds '.pose.frames == 1 and ([.pose.bodies[].name] == ["frame", "fork", "rear", "front"]) and (.pose.constraints | length) == 7'
# Two numbers of 4 bytes for each of three parts of four bodies, in base64.
holds '[.modes[].columns | (.position, .rotation) | length] | unique == [4 * 3 * 2 * 4 / 3 * 4]'
holds '.modes[0].moves[0] | .body == "fork" and .size > 1'
# In coordinates: two numbers for each, and no body.
expect 0 linearize "$scenes/double-pendulum-angles.toml" --equilibrium --report modes.html --json
holds '.modes | length == 4'
page modes.html
holds '(.modes | length) == 2 and .at_rest and .modes[0].columns.position == "" and (.modes[0].columns.coordinate | length) == 24'
# What rotates as a whole says in which frame.
expect 0 linearize "$scenes/steady-top.toml" --report modes.html
page modes.html
holds '.linearization.frame_angular_velocity[2] > 1 and (.modes | length) == 1'
# All modes may be neutral.
expect 0 linearize "$scenes/tumbling-body.toml" --report modes.html

# Frozen coefficients are called so.
expect 0 linearize "$scenes/pendulum.toml"
prints '^WARNING: the motion is not steady'
expect 0 linearize "$scenes/pendulum.toml" --at 0.1 --json
holds '.steady == false and (.t - 0.1 | fabs) < 1e-12'

# Every scene of the gallery can be linearised, or the command says why not.
for scene in "$scenes"/*.toml; do
  "$linchpin" linearize "$scene" >out 2>err
  code=$?
  [[ $code == 0 || ( $code == 4 && $(tail -n 1 err) == "linchpin linearize: "* ) ]] || fail "$scene: exit code $code: $(tail -n 2 err)"
done

# A step of the semi-implicit method ends beside the constraints on velocities.
sed 's/^method = .*/method = "semi-implicit"/' "$scenes/double-pendulum.toml" >swinging.toml
expect 0 linearize swinging.toml --at 0.1 --json
holds '.steady == false'

# Mistakes and states without a derivative.
expect 2 linearize "$scenes/pendulum.toml" --at -1
says '--at is -1, expected a time from 0 to 86400 s'
expect 2 linearize "$scenes/pendulum.toml" --at 1 --equilibrium
says '--at and --equilibrium exclude each other'
expect 3 linearize missing.toml
cp "$scenes/pendulum.toml" own.toml
expect 2 linearize own.toml --report own.toml
says '--report: .*own.toml'
expect 2 linearize own.toml --report /no/such/folder/modes.html
says '--report'
cmp -s own.toml "$scenes/pendulum.toml" || fail "the scene was written to"
expect 4 linearize "$scenes/clamped-hinges.toml"
says 'the dry friction of ".*" sticks at this state'
expect 4 linearize "$scenes/clamped-hinges.toml" --report none.html
[[ ! -e none.html ]] || fail "a page of a state without a derivative"
expect 2 sweep "$scenes/pendulum.toml" --set L=1:2:2 --linearize --until "t - 1" --out x.csv
says '--until and --linearize exclude each other'
done_testing
