# A robot whose feet are meshes stands on the ground, on both hosts of Bullet and as a multibody; hulls touch boxes, round
# shapes and other hulls on their faces. A recording has the hulls.
source "$(dirname "$0")/common.bash" "$@"

cat >"$scratch/foot.obj" <<'OBJ'
v -0.1 -0.1 -0.05
v -0.1 -0.1 0.05
v -0.1 0.1 -0.05
v -0.1 0.1 0.05
v 0.1 -0.1 -0.05
v 0.1 -0.1 0.05
v 0.1 0.1 -0.05
v 0.1 0.1 0.05
f 1 2 4 3
f 5 6 8 7
f 1 2 6 5
OBJ
foot() { echo "<collision><origin xyz=\"$1\"/><geometry><mesh filename=\"foot.obj\"/></geometry></collision>"; }
{
  echo '<robot name="stool"><link name="seat"><inertial><mass value="4"/>'
  echo '<inertia ixx="0.1" iyy="0.1" izz="0.1"/></inertial>'
  foot "0.3 0 -0.2" && foot "-0.3 0.2 -0.2" && foot "-0.3 -0.2 -0.2"
  echo '</link><link name="arm"><inertial><mass value="0.5"/><inertia ixx="0.01" iyy="0.01" izz="0.01"/></inertial></link>'
  echo '<joint name="hang" type="continuous"><parent link="seat"/><child link="arm"/><axis xyz="0 1 0"/></joint></robot>'
} >"$scratch/stool.urdf"
# scene AS HEIGHT: the stool above a floor, and a ball above one of its feet.
scene() {
  cat <<TOML
schema = 2
[world]
gravity = [0, 0, -9.81]
duration = 1.5
dt = 0.002
contacts = true
[[body]]
name = "floor"
kind = "fixed"
shape = { box = [4, 4, 1] }
position = [0, 0, -0.5]
[[body]]
name = "ball"
shape = { sphere = 0.1 }
mass = 0.5
position = [0.3, 0, 0.21]
[model]
urdf = "stool.urdf"
as = "$1"
position = [0, 0, $2]
[[log]]
channel = "seat.position"
[[log]]
channel = "ball.position"
TOML
}
if "$linchpin" check "$scratch/stool.urdf" 2>&1 | grep -q "built without URDF"; then
  echo "skipped: linchpin was built without URDF"
  done_testing
fi
expect 0 check "$scratch/stool.urdf"
says '^note: link "seat" collides by the convex hull of its mesh$'

# last COLUMN IS LIMIT: the last value of a column in out.csv.
last() {
  LC_ALL=C awk -F, -v name="$1" -v is="$2" -v limit="$3" '
    NR == 1 { for (i = 1; i <= NF; ++i) if ($i == name) at = i }
    END { d = $at - is; if (!at || d > limit || -d > limit) { print name " is " $at ", expected " is; exit 1 } }' \
    "$scratch/out.csv" || fail "$1 at the end of $scene_of"
}
for host in bullet bullet-float64; do
  [ -x "$bin/linchpin-worker-$host" ] || continue
  for as in bodies multibody; do
    scene_of="the stool on $host as $as"
    scene $as 0.26 >"$scratch/stool.toml"
    expect 0 run "$scratch/stool.toml" --host $host --csv "$scratch/out.csv"
    # The soles are 0.25 m below the seat; the ball lies on a foot 0.1 m high. Bullet corrects depths of contacts softly.
    last "seat.position.z [m]" 0.25 3e-4
    last "ball.position.z [m]" 0.2 3e-4
  done
done

# Recordings have the hulls, on every host, and are read again. So do the files for other viewers.
for host in bare bullet-float64; do
  [ $host = bare ] || [ -x "$bin/linchpin-worker-$host" ] || continue
  expect 0 run "$scratch/stool.toml" --host $host --duration 0.1 --record "$scratch/stool.rec" --report "$scratch/stool.html"
  scene_of="the recording on $host"
  [ "$(jq -r '.motions[0].bodies[] | select(.name == "seat") | .parts | length, .[0].shape, (.[0].triangles | length),
    (.[0].vertices | length), (.[0].position | map(. * 1000 | round))' "$scratch/stool.rec" | tr -d ' \n')" = "3hull36128[300,0,-200]" ] ||
    fail "$scene_of has other hulls"
  expect 0 report "$scratch/stool.rec" --out "$scratch/again.html" --gltf "$scratch/again.gltf" --mcap "$scratch/again.mcap"
  [ "$(jq '[.meshes[].primitives | length] | max' "$scratch/again.gltf")" = 3 ] || fail "$scene_of has other meshes in glTF"
  for broken in '.vertices = "AAAA"' '.triangles[0] = 8' '.triangles[0] = -1' 'del(.triangles)' '.rotation = [1]'; do
    jq -c "(.motions[0].bodies[] | select(.name == \"seat\") | .parts[0]) |= ($broken)" "$scratch/stool.rec" >"$scratch/broken.rec"
    expect 3 report "$scratch/broken.rec" --out "$scratch/again.html"
  done
done

# A convex decomposition on request: a ball rests on the step of an L, which its one hull fills.
cat >"$scratch/step.obj" <<'OBJ'
v 0 0 0
v 2 0 0
v 2 0 1
v 1 0 1
v 1 0 2
v 0 0 2
v 0 1 0
v 2 1 0
v 2 1 1
v 1 1 1
v 1 1 2
v 0 1 2
f 1 2 3 4
f 1 4 6
f 4 5 6
f 10 9 8 7
f 12 10 7
f 12 11 10
f 1 7 8 2
f 2 8 9 3
f 3 9 10 4
f 4 10 11 5
f 5 11 12 6
f 6 12 7 1
OBJ
echo '<robot name="step"><link name="world"/><link name="step"><collision><geometry><mesh filename="step.obj"/></geometry></collision></link>
  <joint name="j" type="fixed"><parent link="world"/><child link="step"/></joint></robot>' >"$scratch/step.urdf"
cat >"$scratch/step.toml" <<'TOML'
schema = 2
[world]
duration = 1.5
contacts = true
[model]
urdf = "step.urdf"
convex_decomposition = 8
[[body]]
name = "ball"
shape = { sphere = 0.2 }
density = 100
position = [1.5, 0.5, 1.3]
TOML
for host in bullet bullet-float64; do
  [ -x "$bin/linchpin-worker-$host" ] || continue
  scene_of="the step on $host"
  expect 0 run "$scratch/step.toml" --host $host --csv "$scratch/out.csv" --record "$scratch/step.rec"
  says 'link "step" \(2 hulls\) collides by a convex decomposition of its mesh'
  last "ball.z [m]" 1.2 2e-3
  [ "$(jq '[.motions[0].bodies[] | select(.name != "ball") | .parts | length] | max' "$scratch/step.rec")" = 2 ] || fail "$scene_of has other hulls"
done
sed -i 's/= 8/= 65/' "$scratch/step.toml"
expect 3 check "$scratch/step.toml"
says 'convex_decomposition.*64'

# A ground that is a mesh: hulls on a hull.
if ! "$linchpin" check "$scratch/none.sdf" 2>&1 | grep -q "built without SDF" && [ -x "$bin/linchpin-worker-bullet-float64" ]; then
  cat >"$scratch/world.sdf" <<'SDF'
<sdf version="1.7"><world name="w">
  <model name="ground"><static>true</static><link name="slab"><pose>0 0 -0.5 0 0 0</pose><collision name="c"><geometry>
    <mesh><uri>foot.obj</uri><scale>20 20 10</scale></mesh></geometry></collision></link></model>
  <model name="block"><pose>0.1 0 0.06 0 0 0.3</pose><link name="block"><inertial><mass>2</mass><inertia><ixx>0.01</ixx>
    <iyy>0.01</iyy><izz>0.015</izz></inertia></inertial><collision name="c"><geometry><mesh><uri>foot.obj</uri></mesh>
    </geometry></collision></link></model></world></sdf>
SDF
  cat >"$scratch/world.toml" <<'TOML'
schema = 2
[world]
gravity = [0, 0, -9.81]
duration = 1.5
dt = 0.002
contacts = true
[model]
sdf = "world.sdf"
self_collision = true
TOML
  scene_of="a block on a mesh"
  expect 0 run "$scratch/world.toml" --host bullet-float64 --csv "$scratch/out.csv"
  last "block::block.z [m]" 0.05 3e-4
  (cd "$scratch" && "$linchpin" check world.sdf >/dev/null) || fail "a file is not found by its bare name"
fi
done_testing
