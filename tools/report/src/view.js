// The scene in three dimensions: one run solid, one as an overlay, forces as arrows, paths of what moves.
import {
  AmbientLight, Box3, BoxGeometry, BufferGeometry, CapsuleGeometry, Color, ConeGeometry, CylinderGeometry,
  DirectionalLight, EdgesGeometry, Float32BufferAttribute, GridHelper, Group, InstancedMesh, Line, LineBasicMaterial,
  LineSegments, Matrix4, Mesh, MeshBasicMaterial, MeshLambertMaterial, PerspectiveCamera, Quaternion, Scene,
  SphereGeometry, Vector3, WebGLRenderer,
} from 'three';
import { OrbitControls } from 'three/examples/jsm/controls/OrbitControls.js';

const most_arrows = 2000, most_paths = 40;

// Each triangle has corners of its own, so that faces are flat.
function polyhedron(body) {
  const raw = Uint8Array.from(atob(body.vertices), (c) => c.charCodeAt(0)), all = new Float32Array(raw.buffer), at = [];
  for (const i of body.triangles) at.push(all[3 * i], all[3 * i + 1], all[3 * i + 2]);
  const out = new BufferGeometry().setAttribute('position', new Float32BufferAttribute(at, 3));
  out.computeVertexNormals();
  return out;
}
function geometry(body, dot) {
  const [x, y, z] = body.size;
  if (body.shape === 'hull') return polyhedron(body);
  if (body.shape === 'box') return new BoxGeometry(x, y, z);
  if (body.shape === 'sphere') return new SphereGeometry(x, 32, 20);
  if (body.shape === 'capsule') return new CapsuleGeometry(x, y, 8, 20);
  if (body.shape === 'cylinder') return new CylinderGeometry(x, x, y, 32);
  if (body.kind === 'fixed' || body.kind === 'kinematic') return new BoxGeometry(1.6 * dot, 1.6 * dot, 1.6 * dot);
  return new SphereGeometry(dot, 20, 14);
}
// What has no shape is a dot; what stands still without one is shown where something hangs on it.
function shown(body, motion) {
  return body.shape !== 'none' || !!body.parts || body.kind === 'particle' || body.kind === 'rigid' || motion.links.some((link) => link.bodies.some((b) => b >= 0 && motion.all[b] === body));
}
// Lines on what is round, by which one sees it turn; a body without a shape has axes instead.
function marks(body, dot) {
  if (body.kind !== 'rigid' || body.shape === 'box' || body.shape === 'hull') return null;
  const at = [], l = 4 * dot, [x, y] = body.size, r = 1.004 * x;
  if (body.shape === 'none') at.push(-l, 0, 0, l, 0, 0, 0, -0.6 * l, 0, 0, 0.6 * l, 0, 0, 0, -0.3 * l, 0, 0, 0.3 * l);
  else if (body.shape === 'sphere') {
    for (let i = 0; i < 96; ++i)
      for (const k of [i, i + 1]) { const a = (k * Math.PI) / 16, s = r * Math.sin(a), c = r * Math.cos(a); at.push(...[[c, s, 0], [0, c, s], [s, 0, c]][Math.floor(i / 32)]); }
  } else for (const [c, s] of [[r, 0], [-r, 0], [0, r], [0, -r]]) at.push(c, -y / 2, s, c, y / 2, s);
  return new BufferGeometry().setAttribute('position', new Float32BufferAttribute(at, 3));
}

// How far a body reaches from its origin.
export const radius_of = (body) => (body.parts ? Math.max(...body.parts.map((part) => Math.hypot(...part.position) + Math.hypot(...part.size) / 2)) : body.shape === 'sphere' || body.shape === 'none' ? body.size[0] || 0 : Math.hypot(...body.size) / 2);
// The extent of what moves; a run that was lost stays out of it as far as it can.
export function extent(motion) {
  const box = new Box3(), p = new Vector3(), n = motion.bodies.length, every = Math.max(1, Math.floor(motion.frames / 200));
  motion.bodies.forEach((body, i) => {
    const radius = radius_of(body);
    if (!shown(body, motion)) return;
    const still = body.kind === 'fixed';
    for (let f = 0; f < (still ? 1 : motion.frames); f += every) {
      p.fromArray(motion.position, 3 * (f * n + i));
      if (!(p.length() < 1e6)) continue;
      box.expandByPoint(p);
      if (!still || radius < 3) box.union(new Box3(p.clone().subScalar(radius), p.clone().addScalar(radius)));
    }
  });
  const local = [0, 0, 0];  // where joints are, and what they hang on
  motion.links.forEach((link, i) => {
    const a = anchor(motion, i, 0, local);
    if (a && a.length() < 1e6) box.expandByPoint(a);
    for (const body of link.bodies) {
      if (body < 0 || !motion.bodyOf.has(body)) continue;
      motion.pose(motion.bodyOf.get(body), 0, P, Q);
      box.expandByPoint(p.fromArray(P));
    }
  });
  if (box.isEmpty()) box.expandByPoint(p.set(0, 0, 0));
  return box;
}
const P = [0, 0, 0], Q = [0, 0, 0, 1], q_ = new Quaternion();
function anchor(motion, link, time, local) {
  const body = motion.links[link].bodies[motion.links[link].on];
  if (!motion.pointAt(link, motion.frameAt(time), local)) return null;
  const out = new Vector3().fromArray(local);
  if (body === undefined || body < 0 || !motion.bodyOf.has(body)) return out;
  motion.pose(motion.bodyOf.get(body), time, P, Q);
  if (!Number.isFinite(P[0])) return null;
  return out.applyQuaternion(q_.fromArray(Q)).add(new Vector3().fromArray(P));
}

class Run {
  constructor(motion, colour, overlay, size, theme) {
    this.motion = motion;
    this.group = new Group();
    this.meshes = motion.bodies.map((body) => {
      if (!shown(body, motion)) return null;
      const still = body.kind === 'fixed';
      if (overlay && still) return null;
      const make = (of) => {
        const shape = geometry(of, size * 0.014), flat = of.shape === 'box' ? 1 : of.shape === 'hull' ? 20 : 0;
        if (overlay) {
          const lines = new LineSegments(new EdgesGeometry(shape, flat || 12), new LineBasicMaterial({ color: colour }));
          lines.add(new Mesh(shape, new MeshBasicMaterial({ color: colour, transparent: true, opacity: 0.16, depthWrite: false })));
          lines.scale.setScalar(0.985);  // where both are at one place the solid one is seen
          return lines;
        }
        const mesh = new Mesh(shape, new MeshLambertMaterial({ color: still ? theme.still : colour, transparent: true, opacity: still ? 0.75 : 1 }));
        if (flat) mesh.add(new LineSegments(new EdgesGeometry(shape, flat), new LineBasicMaterial({ color: theme.edge, transparent: true, opacity: 0.5 })));
        const lines = still || motion.bodies.length > 200 ? null : marks(of, size * 0.014);
        if (lines) mesh.add(new LineSegments(lines, new LineBasicMaterial({ color: of.shape === 'none' ? colour : theme.edge, transparent: true, opacity: of.shape === 'none' ? 1 : 0.35 })));
        return mesh;
      };
      const mesh = body.parts ? new Group() : make(body);
      for (const part of body.parts || []) {
        const placed = make({ ...part, kind: body.kind });
        placed.position.fromArray(part.position);
        placed.quaternion.fromArray(part.rotation);
        mesh.add(placed);
      }
      this.group.add(mesh);
      return mesh;
    });
    // What holds together: from body over joint to body.
    this.rods = new LineSegments(new BufferGeometry(), new LineBasicMaterial({ color: overlay ? colour : theme.rod, transparent: true, opacity: overlay ? 0.6 : 0.9 }));
    this.rods.geometry.setAttribute('position', new Float32BufferAttribute(new Float32Array(motion.links.length * 12), 3));
    this.rods.frustumCulled = false;
    this.group.add(this.rods);
    this.paths = new Group();
    const moving = motion.bodies.map((b, i) => i).filter((i) => !['fixed'].includes(motion.bodies[i].kind));
    if (moving.length <= most_paths)
      for (const i of moving) {
        const n = motion.bodies.length, at = [];
        for (let f = 0; f < motion.frames; ++f) {
          const p = motion.position.subarray(3 * (f * n + i), 3 * (f * n + i) + 3);
          if (Math.hypot(...p) < 1e5) at.push(...p);
        }
        const line = new BufferGeometry();
        line.setAttribute('position', new Float32BufferAttribute(at, 3));
        this.paths.add(new Line(line, new LineBasicMaterial({ color: colour, transparent: true, opacity: moving.length > 8 ? 0.18 : 0.4 })));
      }
    this.group.add(this.paths);
  }
  centre(index, time) {
    if (index === undefined || index < 0 || !this.motion.bodyOf.has(index)) return null;
    this.motion.pose(this.motion.bodyOf.get(index), time, P, Q);
    return Number.isFinite(P[0]) ? new Vector3().fromArray(P) : null;
  }
  show(time) {
    const lost = time > this.motion.end + 1e-9;
    this.group.visible = !lost;
    if (lost) return;
    this.meshes.forEach((mesh, i) => {
      if (!mesh) return;
      this.motion.pose(i, time, P, Q);
      mesh.visible = Number.isFinite(P[0]);  // a body may leave its world
      if (!mesh.visible) return;
      mesh.position.fromArray(P);
      mesh.quaternion.fromArray(Q);
    });
    const out = this.rods.geometry.attributes.position;
    this.motion.links.forEach((link, i) => {
      const a = this.centre(link.bodies[0], time), b = this.centre(link.bodies[1], time);
      const at = anchor(this.motion, i, time, [0, 0, 0]) || a || b || new Vector3();
      [a || at, at, at, b || at].forEach((p, k) => out.setXYZ(4 * i + k, p.x, p.y, p.z));
    });
    out.needsUpdate = true;
  }
  dispose() { this.group.traverse((o) => { if (o.geometry) o.geometry.dispose(); if (o.material) o.material.dispose(); }); }
}

export class View {
  // Throws where there is no WebGL.
  constructor(canvas, gravity) {
    // Asked for on a canvas of its own: three.js complains at length where there is none.
    if (!document.createElement('canvas').getContext('webgl2')) throw new Error('no WebGL');
    this.renderer = new WebGLRenderer({ canvas, antialias: true, alpha: true, preserveDrawingBuffer: true });
    this.scene = new Scene();
    this.camera = new PerspectiveCamera(38, 4 / 3, 0.01, 1e5);
    const g = new Vector3().fromArray(gravity || [0, -1, 0]);
    this.up = g.lengthSq() > 0 ? g.clone().normalize().negate() : new Vector3(0, 1, 0);
    this.camera.up.copy(this.up);
    this.controls = new OrbitControls(this.camera, canvas);
    this.controls.addEventListener('change', () => this.draw());
    this.sun = new DirectionalLight(0xffffff, 2.2);
    this.scene.add(new AmbientLight(0xffffff, 1.5), this.sun);
    this.arrows = new Group();
    const paint = new MeshLambertMaterial({ color: 0xe69f00 });
    const shaft = new CylinderGeometry(1, 1, 1, 10).translate(0, 0.5, 0), head = new ConeGeometry(1, 1, 14).translate(0, 0.5, 0);
    this.shafts = new InstancedMesh(shaft, paint, most_arrows);
    this.heads = new InstancedMesh(head, paint, most_arrows);
    this.shafts.frustumCulled = this.heads.frustumCulled = false;
    this.arrows.add(this.shafts, this.heads);
    this.scene.add(this.arrows);
    this.runs = [];
    this.solid = this.overlay = null;
    this.time = 0;
  }
  frame(motion) {
    this.box = extent(motion);
    const size = this.box.getSize(new Vector3());
    // What hardly moves is shown beside the world's origin, where equations mostly hang things, not as all of the picture.
    const away = this.box.getCenter(new Vector3()).length();
    this.origin = size.length() < 0.02 * away && away < 1e4 && motion.links.length > 0;
    if (this.origin) this.box.expandByPoint(new Vector3()).getSize(size);
    this.size = Math.max(size.x, size.y, size.z) || Math.max(...motion.bodies.map((b) => Math.hypot(...b.size))) || 1;
    if (!(size.length() > 1e-6 * this.size)) this.box.expandByScalar(0.5 * this.size);
    this.whole = this.box.clone();
    this.home();
    if (this.grid) this.scene.remove(this.grid);
    const step = 10 ** Math.floor(Math.log10(this.size / 3)), cells = Math.min(60, 2 * Math.ceil(this.size / step));
    this.grid = new GridHelper(cells * step, cells);
    this.grid.material.transparent = true;
    this.grid.material.opacity = 0.35;
    this.grid.quaternion.setFromUnitVectors(new Vector3(0, 1, 0), this.up);
    const centre = this.box.getCenter(new Vector3()), low = Math.min(this.box.min.dot(this.up), this.box.max.dot(this.up));
    this.grid.position.copy(centre).addScaledVector(this.up, low - centre.dot(this.up) - 0.02 * this.size);
    this.scene.add(this.grid);
    this.cell = step;
  }
  home() {
    // Looked at along its flattest direction, a little from above and from the side.
    const size = this.box.getSize(new Vector3()), whole = this.whole, centre = whole.getCenter(new Vector3());
    const axes = [new Vector3(0, 0, 1), new Vector3(1, 0, 0), new Vector3(0, 1, 0)].filter((a) => Math.abs(a.dot(this.up)) < 0.8);
    const across = (a) => Math.abs(size.dot(a));
    const look = across(axes[0]) <= across(axes[1]) * 1.02 ? axes[0] : axes[1];
    const side = new Vector3().crossVectors(this.up, look);
    const flat = across(look) < 0.3 * this.size, lying = across(this.up) < 0.15 * this.size && !flat;
    const from = look.clone().addScaledVector(side, flat ? 0.28 : 0.6).addScaledVector(this.up, flat ? 0.18 : lying ? 1.1 : 0.42).normalize();
    this.controls.target.copy(centre);
    this.camera.position.copy(centre).add(from);
    this.camera.lookAt(centre);
    // As near as the corners of the box allow.
    const t = Math.tan((this.camera.fov * Math.PI) / 360), corner = new Vector3();
    const x = new Vector3().crossVectors(this.up, from).normalize(), y = new Vector3().crossVectors(from, x);
    let distance = 0;
    for (let i = 0; i < 8; ++i) {
      corner.set(i & 1 ? whole.max.x : whole.min.x, i & 2 ? whole.max.y : whole.min.y, i & 4 ? whole.max.z : whole.min.z).sub(centre);
      const depth = corner.dot(from);
      distance = Math.max(distance, depth + Math.abs(corner.dot(x)) / (t * this.camera.aspect), depth + Math.abs(corner.dot(y)) / t);
    }
    distance = Math.max(distance * 1.12, this.size * 0.6);  // with room for what sticks out: points drawn as balls, arrows
    this.camera.position.copy(centre).addScaledVector(from, distance);
    this.camera.near = distance / 200;
    this.camera.far = distance * 200;
    this.camera.updateProjectionMatrix();
    this.sun.position.copy(centre).addScaledVector(this.up, 4).addScaledVector(side, 1.5).addScaledVector(look, 2.5);
    this.sun.target.position.copy(centre);
    this.controls.update();
  }
  set(solid, overlay, theme) {
    for (const run of [this.solid, this.overlay]) if (run) { this.scene.remove(run.group); run.dispose(); }
    this.solid = solid ? new Run(solid.motion, new Color(solid.colour), false, this.size, theme) : null;
    this.overlay = overlay ? new Run(overlay.motion, new Color(overlay.colour), true, this.size, theme) : null;
    for (const run of [this.solid, this.overlay]) if (run) this.scene.add(run.group);
    if (this.origin && !this.mark) this.scene.add(this.mark = new Mesh(new BoxGeometry(1, 1, 1).scale(0.022 * this.size, 0.022 * this.size, 0.022 * this.size), new MeshLambertMaterial()));
    if (this.mark) this.mark.material.color.set(theme.still);
    this.grid.material.color.set(theme.grid);
    // The strongest force but for rare peaks is a fifth of the scene; less where there are many, which would cover it.
    const sizes = [];
    if (solid) for (let i = 0; i < solid.motion.links.length; ++i) for (const x of solid.motion.size(solid.motion.force, i)) if (x > 0) sizes.push(x);
    sizes.sort((a, b) => a - b);
    this.arrow = this.size * 0.2 * Math.min(1, Math.sqrt(16 / Math.max(1, solid ? solid.motion.links.length : 1)));
    this.newtons = sizes.length ? sizes[Math.floor(0.98 * (sizes.length - 1))] : 0;
    this.whole = this.box.clone();
    if (solid && this.newtons > 0) {  // arrows are part of the scene, to their tips
      const f = [0, 0, 0], local = [0, 0, 0], motion = solid.motion, every = Math.max(1, Math.floor(motion.frames / 100));
      for (let frame = 0; frame < motion.frames; frame += every)
        for (let i = 0; i < Math.min(motion.links.length, 200); ++i) {
          if (!motion.forceAt(i, frame, f, local)) continue;
          const at = anchor(motion, i, motion.t[frame], local), force = new Vector3().fromArray(f);
          if (at && at.length() < 1e6) this.whole.expandByPoint(at.addScaledVector(force.normalize(), this.length(Math.hypot(...f))));
        }
    }
    this.draw();
  }
  length(newtons) { return Math.min(this.arrow * newtons / this.newtons, 1.6 * this.arrow); }  // rare peaks are cut
  options(forces, paths) {
    this.arrows.visible = forces;
    for (const run of [this.solid, this.overlay]) if (run) run.paths.visible = paths;
    this.draw();
  }
  resize(width, height) {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    this.renderer.setPixelRatio(ratio);
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / height;
    this.camera.updateProjectionMatrix();
    this.draw();
  }
  show(time) {
    this.time = time;
    for (const run of [this.solid, this.overlay]) if (run) run.show(time);
    this.point();
    this.draw();
  }
  point() {
    const motion = this.solid && this.solid.motion;
    let n = 0;
    if (motion && this.newtons > 0 && this.time <= motion.end + 1e-9) {
      const f = [0, 0, 0], local = [0, 0, 0], m = new Matrix4(), turn = new Quaternion(), up = new Vector3(0, 1, 0), scale = new Vector3();
      // The last state has no forces of its own.
      const frame = Math.min(motion.frameAt(this.time), Math.max(motion.frames - 2, 0));
      for (let i = 0; i < motion.links.length && n < most_arrows; ++i) {
        if (!motion.forceAt(i, frame, f, local)) continue;
        const force = new Vector3().fromArray(f), length = this.length(force.length());
        if (length < 0.02 * this.arrow) continue;
        const at = anchor(motion, i, this.time, local), along = force.normalize();
        if (!at) continue;
        turn.setFromUnitVectors(up, along);
        const r = 0.022 * this.arrow, tip = Math.min(0.4 * length, 0.2 * this.arrow);
        this.shafts.setMatrixAt(n, m.compose(at, turn, scale.set(r, length - tip, r)));
        at.addScaledVector(along, length - tip);
        this.heads.setMatrixAt(n, m.compose(at, turn, scale.set(2.6 * r, tip, 2.6 * r)));
        ++n;
      }
    }
    this.shafts.count = this.heads.count = n;
    this.shafts.instanceMatrix.needsUpdate = this.heads.instanceMatrix.needsUpdate = true;
  }
  // Once per picture of the screen, however much has changed; at once for paper, which does not wait.
  draw(now = false) {
    if (!this.solid && !this.overlay) return;
    if (now) this.renderer.render(this.scene, this.camera);
    else if (!this.waiting) this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.draw(true); });
  }
}
