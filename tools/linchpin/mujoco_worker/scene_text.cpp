#include "scene_text.h"

#include "mjcf_scene.h"
#include "versions.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

namespace linchpin::mujoco_worker {

namespace {

std::string number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", x == 0 ? 0.0 : x);
  return text;
}
std::string numbers(const Vector3d& v) { return number(v.x()) + " " + number(v.y()) + " " + number(v.z()); }
std::string vector(const Vector3d& v) {
  return "[" + number(v.x()) + ", " + number(v.y()) + ", " + number(v.z()) + "]";
}
std::string rotation(const Quaterniond& q) {
  return "[" + number(q.w()) + ", " + number(q.x()) + ", " + number(q.y()) + ", " + number(q.z()) + "]";
}

// An attribute of XML. Quotes of TOML do not occur in it.
std::string attribute(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&apos;";
        break;
      default:
        out += c;
    }
  return out + "\"";
}

std::string origin(const Vector3d& p, const Quaterniond& q) {
  std::string out = "<origin xyz=\"" + numbers(p) + "\"";
  if (!q.coeffs().isApprox(Quaterniond::Identity().coeffs(), 0))
    out += " quat_xyzw=\"" + number(q.x()) + " " + number(q.y()) + " " + number(q.z()) + " " + number(q.w()) + "\"";
  return out + "/>";
}

class Writer {
 public:
  explicit Writer(Model& of) : model_(of), m_(of.model()), d_(of.data()) {}

  scene::MjcfScene write() {
    name_joints();
    for (int i = 0; i < m_.neq; ++i) write_equality(i);
    write_robot();
    write_sites();
    for (int i = 0; i < actuators(m_); ++i) write_actuator(i);
    note_the_rest();
    scene::MjcfScene out;
    out.text = head() + "urdf_text = '''\n<robot name=\"mjcf\">\n" + robot_.str() + "</robot>\n'''\n" + tables_.str();
    for (const auto& [what, names] : notes_) out.notes.emplace_back(what, names);
    return out;
  }

 private:
  void note(const std::string& what, const std::string& name) {
    auto found = std::find_if(notes_.begin(), notes_.end(), [&](const auto& each) { return each.first == what; });
    if (found == notes_.end()) found = notes_.insert(notes_.end(), {what, {}});
    if (!name.empty()) found->second.push_back(name);
  }

  const std::string& body(int i) const {
    return i == 0 ? world_ : model_.body_names()[static_cast<std::size_t>(i) - 1];
  }

  // As the reports of MuJoCo have them, and others by their number.
  void name_joints() {
    std::set<std::string> taken;
    for (const Link& link : model_.links()) {
      taken.insert(link.name);
      if (link.kind == Link::Kind::joint) joints_[link.index] = link.name;
    }
    for (int i = 0; i < m_.njnt; ++i) {
      if (joints_.count(i)) continue;
      const char* const name = mj_id2name(&m_, mjOBJ_JOINT, i);
      std::string free = name && *name ? name : "joint#" + std::to_string(i);
      while (!taken.insert(free).second) free += "'";
      joints_[i] = free;
    }
  }

  std::string head() {
    std::string out =
        "schema = 2\n\n[world]\ngravity = " + vector(gravity()) + "\ndt = " + number(m_.opt.timestep) + "\n";
    if (collides_) out += "contacts = true\n";
    out += "\n[model]\nbody_axes = \"link\"\nself_collision = true\n";
    if (!start_.empty()) {
      std::string all;
      for (const auto& [name, value] : start_)
        all += (all.empty() ? "" : ", ") + cli::toml_string(name) + " = " + number(value);
      out += "joints = { " + all + " }\n";
    }
    return out;
  }
  Vector3d gravity() const {
    return m_.opt.disableflags & mjDSBL_GRAVITY ? Vector3d(Vector3d::Zero()) : vector3(m_.opt.gravity);
  }

  // ---- the robot ----

  void write_robot() {
    robot_ << "<link name=\"world\">\n";
    write_shapes(0);
    robot_ << "</link>\n";
    for (int i = 1; i < m_.nbody; ++i) {
      robot_ << "<link name=" << attribute(body(i)) << ">\n";
      write_inertial(i);
      write_shapes(i);
      robot_ << "</link>\n";
      write_joints_of(i);
    }
  }

  void write_inertial(int i) {
    if (m_.body_mass[i] <= 0) return;
    const Matrix3d axes = quaternion(m_.body_iquat + 4 * i).normalized().toRotationMatrix();
    Matrix3d I = axes * vector3(m_.body_inertia + 3 * i).asDiagonal() * axes.transpose();
    I = 0.5 * (I + I.transpose()).eval();
    robot_ << "<inertial>" << origin(vector3(m_.body_ipos + 3 * i), Quaterniond::Identity()) << "<mass value=\""
           << number(m_.body_mass[i]) << "\"/><inertia ixx=\"" << number(I(0, 0)) << "\" iyy=\"" << number(I(1, 1))
           << "\" izz=\"" << number(I(2, 2)) << "\" ixy=\"" << number(I(0, 1)) << "\" ixz=\"" << number(I(0, 2))
           << "\" iyz=\"" << number(I(1, 2)) << "\"/></inertial>\n";
  }

  std::string geom_name(int i) const {
    const char* const name = mj_id2name(&m_, mjOBJ_GEOM, i);
    return name && *name ? name : "geom#" + std::to_string(i) + " of " + body(m_.geom_bodyid[i]);
  }

  void write_shapes(int i) {
    if (m_.opt.disableflags & (mjDSBL_CONTACT | mjDSBL_CONSTRAINT)) return;
    for (int g = m_.body_geomadr[i]; g < m_.body_geomadr[i] + m_.body_geomnum[i]; ++g) {
      if (m_.geom_contype[g] == 0 && m_.geom_conaffinity[g] == 0) continue;
      const Vector3d size = vector3(m_.geom_size + 3 * g);
      std::string shape;
      switch (m_.geom_type[g]) {
        case mjGEOM_PLANE:
          shape = "<plane normal=\"0 0 1\"/>";
          break;
        case mjGEOM_SPHERE:
          shape = "<sphere radius=\"" + number(size.x()) + "\"/>";
          break;
        case mjGEOM_CAPSULE:
        case mjGEOM_CYLINDER:
          shape = std::string(m_.geom_type[g] == mjGEOM_CAPSULE ? "<capsule" : "<cylinder") + " radius=\"" +
                  number(size.x()) + "\" length=\"" + number(2 * size.y()) + "\"/>";
          break;
        case mjGEOM_BOX:
          shape = "<box size=\"" + numbers(2 * size) + "\"/>";
          break;
        default:
          note("geometries that are meshes, height fields, ellipsoids or signed distances collide with nothing",
               geom_name(g));
          continue;
      }
      collides_ = true;
      robot_ << "<collision>" << origin(vector3(m_.geom_pos + 3 * g), quaternion(m_.geom_quat + 4 * g).normalized())
             << "<geometry>" << shape << "</geometry></collision>\n";
    }
  }

  // The joints of a body, from its parent outwards. Links without mass are between them, and where a joint is beside
  // the frame of the body.
  void write_joints_of(int i) {
    const int first = m_.body_jntadr[i], count = m_.body_jntnum[i];
    const Vector3d place = vector3(m_.body_pos + 3 * i);
    const Quaterniond turn = quaternion(m_.body_quat + 4 * i).normalized();
    if (m_.body_mocapid[i] >= 0) note("mocap bodies stay where they are at the start", body(i));
    if (count == 0) {
      joint("fixed", body(i) + ".weld", body(m_.body_parentid[i]), body(i), place, turn, "");
      return;
    }
    if (m_.jnt_type[first] == mjJNT_FREE) {
      joint("floating", body(i) + ".free", body(0), body(i), place, turn, "");
      write_free_damping(first, i);
      return;
    }
    std::string from = body(m_.body_parentid[i]);
    Vector3d at = place;      // of the next joint in the link before it, less its anchor
    Quaterniond axes = turn;  // of the body in that link
    for (int j = first; j < first + count; ++j) {
      const Vector3d anchor = vector3(m_.jnt_pos + 3 * j);
      const bool last = j == first + count - 1, direct = last && anchor.isZero();
      const std::string to = direct ? body(i) : body(i) + "@" + joints_[j];
      write_joint(j, from, to, at + axes * anchor, axes);
      from = to, axes = Quaterniond::Identity();
      at = -anchor;
      if (direct) continue;
      if (last) joint("fixed", body(i) + ".anchor", from, body(i), at, axes, "");
      robot_ << "<link name=" << attribute(to) << "/>\n";
    }
  }

  void joint(const char* type, const std::string& name, const std::string& parent, const std::string& child,
             const Vector3d& p, const Quaterniond& q, const std::string& more) {
    robot_ << "<joint name=" << attribute(name) << " type=\"" << type << "\"><parent link=" << attribute(parent)
           << "/><child link=" << attribute(child) << "/>" << origin(p, q) << more << "</joint>\n";
  }

  void write_joint(int j, const std::string& parent, const std::string& child, Vector3d p, Quaterniond q) {
    const std::string& name = joints_[j];
    const int dof = m_.jnt_dofadr[j], type = m_.jnt_type[j];
    const auto [damping, armature, is_linear] = of_coordinate(m_, j);
    const bool dry = !(m_.opt.disableflags & (mjDSBL_FRICTIONLOSS | mjDSBL_CONSTRAINT));
    const double friction = dry ? m_.dof_frictionloss[dof] : 0;
    const double stiffness = m_.opt.disableflags & no_springs ? 0 : m_.jnt_stiffness[j];
    if (!is_linear) note("damping and springs of higher order are left out", name);
    if (stiffness != 0 && is_plastic(m_, j)) note("springs that yield are elastic", name);
    if (type == mjJNT_BALL) {
      if (damping != 0) write_ball_damping(j, parent, damping);
      if (stiffness != 0) note("springs of ball joints are left out", name);
      if (friction != 0) note("the dry friction of ball joints is left out", name);
      if (armature != 0) note("the armature of ball joints is left out", name);
      if (m_.jnt_limited[j]) note("limits of ball joints are left out", name);
      joint("spherical", name, parent, child, p, q, "");
      return;
    }
    const double reference = m_.qpos0[m_.jnt_qposadr[j]], spring = m_.qpos_spring[m_.jnt_qposadr[j]];
    const Vector3d axis = vector3(m_.jnt_axis + 3 * j).normalized();
    const bool slides = type == mjJNT_SLIDE;
    if (slides)
      p -= reference * (q * axis);
    else
      q = (q * Quaterniond(Eigen::Quaterniond(Eigen::AngleAxisd(-reference, axis)))).normalized();
    if (reference != 0 && !mimics_.count(j)) start_.emplace_back(name, reference);
    std::string more = "<axis xyz=\"" + numbers(axis) + "\"/><dynamics damping=\"" + number(damping) +
                       "\" friction=\"" + number(friction) + "\"";
    if (stiffness != 0)
      more += " spring_stiffness=\"" + number(stiffness) + "\" spring_reference=\"" + number(spring) + "\"";
    if (armature != 0) more += " armature=\"" + number(armature) + "\"";
    more += "/>";
    double low = m_.jnt_range[2 * j], high = m_.jnt_range[2 * j + 1];
    const bool limited = m_.jnt_limited[j] && !(m_.opt.disableflags & (mjDSBL_LIMIT | mjDSBL_CONSTRAINT));
    const double margin = limited ? m_.jnt_margin[j] : 0;  // by which the force begins before the end of the range
    if (low + margin <= reference && reference <= high - margin)
      low += margin, high -= margin;
    else if (margin != 0)
      note("margins of limits within which the joint starts are left out", name);
    const bool inside = low <= reference && reference <= high;
    if (limited && !inside) note("limits within which the joint does not start are left out", name);
    if (limited && inside)
      more += "<limit lower=\"" + number(low) + "\" upper=\"" + number(high) + "\"/>";
    else if (slides)
      more += "<limit lower=\"-inf\" upper=\"inf\"/>";
    if (const auto found = mimics_.find(j); found != mimics_.end()) more += found->second;
    joint(slides ? "prismatic" : limited && inside ? "revolute" : "continuous", name, parent, child, p, q, more);
  }

  // A damper of the relative rotation.
  void write_ball_damping(int j, const std::string& parent, double damping) {
    const std::string& name = joints_[j];
    const int i = m_.jnt_bodyid[j];
    const bool alone = m_.body_jntnum[i] == 1;
    if (!alone) return note("the damping of ball joints in compound joints is left out", name);
    const bool moves = m_.body_weldid[m_.body_parentid[i]] != 0;
    const auto omega = [](const std::string& of) { return "'" + of + "'.omega"; };
    tables_ << "\n[[force]]\nname = " << cli::toml_string(name + ".damping") << "\nbody = " << cli::toml_string(body(i))
            << "\nmoment = "
            << cli::toml_string("-" + number(damping) + "*(" + omega(body(i)) + (moves ? " - " + omega(parent) : "") +
                                ")");
    if (moves) tables_ << "\nagainst = " << cli::toml_string(parent);
    tables_ << "\n";
  }

  void write_free_damping(int j, int i) {
    const int dof = m_.jnt_dofadr[j];
    const auto [c, armature, is_linear] = of_coordinate(m_, j);
    if (!is_linear) note("damping and springs of higher order are left out", joints_[j]);
    if (armature != 0) note("the armature of free joints is left out", joints_[j]);
    if (m_.dof_frictionloss[dof] != 0) note("the dry friction of free joints is left out", joints_[j]);
    if (m_.jnt_stiffness[j] != 0) note("springs of free joints are left out", joints_[j]);
    if (c == 0) return;
    const std::string frame = "'" + body(i) + "'.frame";
    tables_ << "\n[[force]]\nname = " << cli::toml_string(joints_[j] + ".damping")
            << "\nframe = " << cli::toml_string(body(i))
            << "\nforce = " << cli::toml_string("-" + number(c) + "*" + frame + ".velocity")
            << "\nmoment = " << cli::toml_string("-" + number(c) + "*" + frame + ".omega") << "\n";
  }

  // ---- what closes loops ----

  void write_equality(int i) {
    const Link& link = model_.links()[static_cast<std::size_t>(i)];
    if (!is_active(m_, d_, i)) return note("equalities that the file switches off are left out", link.name);
    if (m_.eq_type[i] == mjEQ_JOINT) return write_joint_equality(i, link.name);
    const auto ends = model_.ends_of(link);
    if (!ends) return note("equalities of tendons, flexible bodies and other kinds are left out", link.name);
    const char* type = ends->has_rotation ? "weld" : "ball";
    std::array<std::string, 2> frames = {body(link.bodies[0]), body(link.bodies[1])};
    if (ends->has_rotation)
      for (std::size_t k = 0; k < 2; ++k) {
        const bool on_world = link.bodies[k] == 0;
        std::string name = link.name + (k == 0 ? ".a" : ".b");
        tables_ << "\n[[frame]]\nname = " << cli::toml_string(name) << "\n"
                << (on_world ? "body" : "frame") << " = " << cli::toml_string(frames[k])
                << "\nposition = " << vector(ends->anchors[k])
                << "\nrotation = " << rotation(ends->axes[k].normalized()) << "\n";
        frames[k] = name;
      }
    tables_ << "\n[[joint]]\nname = " << cli::toml_string(link.name) << "\ntype = \"" << type << "\"\n";
    for (std::size_t k = 0; k < 2; ++k) {
      const std::string side = k == 0 ? "a" : "b";
      const bool on_world = !ends->has_rotation && link.bodies[k] == 0;
      if (on_world)
        tables_ << side << " = \"world\"\n";
      else
        tables_ << "frame_" << side << " = " << cli::toml_string(frames[k]) << "\n";
      if (!ends->has_rotation) tables_ << "at_" << side << " = " << vector(ends->anchors[k]) << "\n";
    }
  }

  // q1 − q1₀ = a + b (q2 − q2₀): a mimic of the joint.
  void write_joint_equality(int i, const std::string& name) {
    const mjtNum* const a = m_.eq_data + mjNEQDATA * i;
    const int follower = m_.eq_obj1id[i], leader = m_.eq_obj2id[i];
    const auto scalar = [&](int j) { return j < 0 || m_.jnt_type[j] == mjJNT_HINGE || m_.jnt_type[j] == mjJNT_SLIDE; };
    if (!scalar(follower) || !scalar(leader)) return note("equalities of ball and free joints are left out", name);
    const double own = m_.qpos0[m_.jnt_qposadr[follower]];
    if (leader < 0) {
      tables_ << "\n[[actuator]]\njoint = " << cli::toml_string(joints_[follower])
              << "\nname = " << cli::toml_string(name) << "\nposition = " << cli::toml_string(number(own + a[0]))
              << "\n";
      return;
    }
    if (a[2] != 0 || a[3] != 0 || a[4] != 0)
      return note("equalities of joints whose polynomial is not linear are left out", name);
    if (mimics_.count(follower)) return note("second equalities of one joint are left out", name);
    for (int at = leader; leads_.count(at);)
      if (at = leads_[at]; at == follower)
        return note("equalities of joints that follow each other in a circle are left out", name);
    leads_[follower] = leader;
    const double of = m_.qpos0[m_.jnt_qposadr[leader]];
    mimics_[follower] = "<mimic name=" + attribute(name) + " joint=" + attribute(joints_[leader]) + " multiplier=\"" +
                        number(a[1]) + "\" offset=\"" + number(own + a[0] - a[1] * of) + "\"/>";
    if (m_.jnt_limited[follower]) note("limits of joints that follow others are left out", joints_[follower]);
  }

  // ---- sites, actuators and the rest ----

  void write_sites() {
    std::set<std::string> taken(model_.body_names().begin(), model_.body_names().end());
    for (const auto& [index, name] : joints_) taken.insert(name);
    for (int i = 0; i < m_.nsite; ++i) {
      const char* const name = mj_id2name(&m_, mjOBJ_SITE, i);
      if (!name || !*name) continue;
      if (!taken.insert(name).second) {
        note("sites that have the name of a body or of a joint are left out", name);
        continue;
      }
      const int in = m_.site_bodyid[i];
      tables_ << "\n[[frame]]\nname = " << cli::toml_string(name) << "\n"
              << (in == 0 ? "body" : "frame") << " = " << cli::toml_string(body(in))
              << "\nposition = " << vector(vector3(m_.site_pos + 3 * i))
              << "\nrotation = " << rotation(quaternion(m_.site_quat + 4 * i).normalized()) << "\n";
    }
  }

  // A force that is affine in the position and the rate of one joint. The control is 0, as on MuJoCo, or the value next
  // to it in its range.
  void write_actuator(int i) {
    const char* const own = mj_id2name(&m_, mjOBJ_ACTUATOR, i);
    const std::string name = own && *own ? own : "actuator#" + std::to_string(i);
    if (m_.opt.disableflags & mjDSBL_ACTUATION) return;
    if (is_in_disabled_group(m_, i)) return note("actuators of groups that the file switches off are left out", name);
    const int joint = m_.actuator_trnid[2 * i];
    const bool of_joint = m_.actuator_trntype[i] == mjTRN_JOINT || m_.actuator_trntype[i] == mjTRN_JOINTINPARENT;
    const bool scalar = of_joint && (m_.jnt_type[joint] == mjJNT_HINGE || m_.jnt_type[joint] == mjJNT_SLIDE);
    const bool affine = m_.actuator_dyntype[i] == mjDYN_NONE &&
                        (m_.actuator_gaintype[i] == mjGAIN_FIXED || m_.actuator_gaintype[i] == mjGAIN_AFFINE) &&
                        (m_.actuator_biastype[i] == mjBIAS_NONE || m_.actuator_biastype[i] == mjBIAS_AFFINE);
    if (!scalar || !affine)
      return note(
          "actuators of tendons, sites, bodies and ball joints, with a state or with another law than an affine "
          "one, are left out",
          name);
    Vector3d b = Vector3d::Zero();
    if (m_.actuator_biastype[i] != mjBIAS_NONE) b += vector3(m_.actuator_biasprm + mjNBIAS * i);
    if (const double control = control_at_zero(m_, i); control != 0) {
      const mjtNum* const gain = m_.actuator_gainprm + mjNGAIN * i;
      b += control * (m_.actuator_gaintype[i] == mjGAIN_AFFINE ? vector3(gain) : Vector3d(gain[0], 0, 0));
    }
    if (b.isZero(0)) {
      note("the control of actuators is 0, so these exert nothing, as on MuJoCo", name);
      return;
    }
    if (has_range_of_actuators(m_, joint)) note("actuatorfrcrange of joints is left out", joints_[joint]);
    const double gear = m_.actuator_gear[6 * first_output(m_, i)];
    const std::string q = "joint_position('" + joints_[joint] + "')", v = "joint_velocity('" + joints_[joint] + "')";
    tables_ << "\n[[actuator]]\njoint = " << cli::toml_string(joints_[joint]) << "\nname = " << cli::toml_string(name)
            << "\n"
            << (m_.jnt_type[joint] == mjJNT_SLIDE ? "force" : "torque") << " = "
            << cli::toml_string(number(gear * b[0]) + " + " + number(gear * gear * b[1]) + "*" + q + " + " +
                                number(gear * gear * b[2]) + "*" + v)
            << "\n";
    if (!m_.actuator_forcelimited[i]) return;
    const double low = m_.actuator_forcerange[2 * i], high = m_.actuator_forcerange[2 * i + 1];
    if (low == -high && high > 0)
      tables_ << (m_.jnt_type[joint] == mjJNT_SLIDE ? "max_force" : "max_torque") << " = "
              << number(std::abs(gear) * high) << "\n";
    else
      note("force ranges of actuators that are not symmetric are left out", name);
  }

  void note_the_rest() {
    for (int i = 0; i < m_.ntendon; ++i) {
      const char* const name = mj_id2name(&m_, mjOBJ_TENDON, i);
      note("tendons are left out, with their springs, dampers, limits and friction",
           name && *name ? name : "tendon#" + std::to_string(i));
    }
    if (m_.opt.density != 0 || m_.opt.viscosity != 0) note("the drag of the medium is left out", "");
    note_gravity_compensation(m_);
    note_extensions(m_);
    if (collides_)
      note(
          "bodies collide on the hosts of Bullet with the contact and friction parameters of Bullet, and pairs that "
          "<contact> or the geometries exclude collide too, unless a joint connects them",
          "");
  }
  template <class M>
  void note_gravity_compensation(const M& m) {
    if constexpr (requires { m.body_gravcomp; })
      for (int i = 1; i < m.nbody; ++i)
        if (m.body_gravcomp[i] != 0) note("the gravity compensation of bodies is left out", body(i));
  }
  template <class M>
  void note_extensions(const M& m) {
    if constexpr (requires { m.nplugin; })
      if (m.nplugin > 0) note("plugins are left out", "");
    if constexpr (requires { m.nflex; })
      if (m.nflex > 0) note("flexible bodies are left out", "");
  }

  Model& model_;
  const mjModel& m_;
  const mjData& d_;
  const std::string world_ = "world";
  std::map<int, std::string> joints_, mimics_;  // names, and elements of URDF, by joint of MuJoCo
  std::map<int, int> leads_;                    // the joint that a joint follows
  std::vector<std::pair<std::string, double>> start_;
  bool collides_ = false;
  std::ostringstream robot_, tables_;
  std::vector<std::pair<std::string, std::vector<std::string>>> notes_;
};

}  // namespace

scene::MjcfScene scene_text_of(Model& model) { return Writer(model).write(); }

}  // namespace linchpin::mujoco_worker
