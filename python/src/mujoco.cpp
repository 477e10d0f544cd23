// linchpin on a model and data of the Python package `mujoco`. linchpin/mujoco.py is its interface.
#include "arrays.h"
#include "callables.h"
#include "mujoco_errors.h"
#include "program_constraints.h"
#include "reaction_arrays.h"

#include <linchpin/mujoco.h>

#include <nanobind/stl/map.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace nb = nanobind;

namespace linchpin::python {

namespace {

/// A name in an equation: a frame of MuJoCo, by its body, and its pose in MuJoCo's frame of that body.
using NamedFrame = std::tuple<std::string, int, nb::object, nb::object>;

Matrix3d matrix3(const mjtNum* rows) { return Eigen::Map<const Eigen::Matrix<double, 3, 3, Eigen::RowMajor>>(rows); }
Vector3d vector3(const mjtNum* x) { return Eigen::Map<const Vector3d>(x); }

/// linchpin on one model and its data, which it keeps alive. nanobind knows types of all modules by their names, so
/// that the name must differ from that of the class for PyBullet.
class MujocoAttachment {
 public:
  MujocoAttachment(nb::object model, nb::object data, std::uintptr_t model_address, std::uintptr_t data_address,
                   const mujoco::Options& options)
      : model_(std::move(model)),
        data_(std::move(data)),
        m_(*reinterpret_cast<mjModel*>(model_address)),
        d_(*reinterpret_cast<mjData*>(data_address)),
        solver_(std::make_unique<mujoco::Solver>(m_, d_, options)) {}

  /// The solver as long as it is locked for this thread.
  struct Access {
    std::unique_lock<std::recursive_mutex> lock;
    mujoco::Solver& solver;
    mujoco::Solver* operator->() const { return &solver; }
  };
  /// @throws OrderError after detach(), and in a step @throws std::runtime_error where another thread uses it
  Access use() {
    std::unique_lock<std::recursive_mutex> lock(mutex_, std::try_to_lock);
    if (!lock)
      throw std::runtime_error(
          "another thread uses this attachment. Only one thread at a time can use it, its model and its data; make "
          "data of its own for each thread");
    if (in_step_)
      throw OrderError(
          "a law or a callback cannot use the attachment, because a step is running. Use it between two steps");
    if (!solver_) throw OrderError("this attachment has ended, because it was detached. Call attach() again");
    return {std::move(lock), *solver_};
  }
  bool detached() const { return !solver_; }
  void detach() {
    if (detached()) return;
    const Access access = use();
    solver_.reset();
  }
  bool enabled() const { return enabled_; }
  void set_enabled(bool on) {
    const Access access = use();
    if (on && !enabled_) access->reset();
    enabled_ = on;
  }
  const mjModel& model() const { return m_; }
  const mjData& data() const { return d_; }

  /// Takes steps. Python can interrupt it between two of them. Call it without the lock of the interpreter.
  void step(long count) {
    const Access access = use();
    Clock::time_point looked = Clock::now();
    for (long i = 0; i < count; ++i) {
      take_step(access.solver);
      // Ctrl+C ends a long run.
      if ((i & 15) != 15 || Clock::now() - looked < std::chrono::milliseconds(50)) continue;
      const nb::gil_scoped_acquire acquire;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      looked = Clock::now();
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  void take_step(mujoco::Solver& solver) {
    const StackOfData stack(d_);
    const mjOption options = m_.opt;
    const long failures = law_failures(solver);
    auto work = [&] {
      if (enabled_)
        solver.step();
      else
        mj_step(&m_, &d_);
    };
    in_step_ = true;
    bool ends = false;
    try {
      ends = runs_without_mujoco_error(work);
    } catch (...) {
      in_step_ = false;
      throw;
    }
    in_step_ = false;
    if (!ends) {
      stack.restore(d_);
      m_.opt = options;
      solver.reset();
      const nb::gil_scoped_acquire acquire;
      raise_mujoco_error();
    }
    if (const long now = law_failures(solver); now > failures)
      throw std::runtime_error(host::law_failure_text(solver.law_failures(), now));
  }
  /// The number of steps in which no law acted. It computes no report where there is no failure.
  static long law_failures(mujoco::Solver& solver) {
    return solver.law_failures().empty() ? 0 : solver.counts().law_failures;
  }
  nb::object model_, data_;
  mjModel& m_;
  mjData& d_;
  std::unique_ptr<mujoco::Solver> solver_;
  bool enabled_ = true, in_step_ = false;
  std::recursive_mutex mutex_;
};

/// Poses of all bodies at the present positions, which the arrays of the data need not contain.
class Kinematics {
 public:
  Kinematics(const mjModel& m, const mjData& d) {
    auto work = [&] {
      d_ = mj_makeData(&m);
      std::copy_n(d.qpos, m.nq, d_->qpos);
      std::copy_n(d.mocap_pos, 3 * m.nmocap, d_->mocap_pos);
      std::copy_n(d.mocap_quat, 4 * m.nmocap, d_->mocap_quat);
      mj_kinematics(&m, d_);
    };
    if (!runs_without_mujoco_error(work)) raise_mujoco_error();
  }
  ~Kinematics() { mj_deleteData(d_); }
  Kinematics(const Kinematics&) = delete;
  Kinematics& operator=(const Kinematics&) = delete;
  Vector3d position(int body) const { return vector3(d_->xpos + 3 * body); }
  Matrix3d rotation(int body) const { return matrix3(d_->xmat + 9 * body); }

 private:
  mjData* d_ = nullptr;
};

// ---- constraints ----

Quaterniond quaternion_argument(const std::string& name, const nb::handle& value) {
  const VectorX q = vector_argument(name, value, 4);
  return Quaterniond(q[0], q[1], q[2], q[3]).normalized();
}

/// Where linchpin's axes of a body are in MuJoCo's frame of it: rotation, and origin seen from these axes.
struct FrameOfBody {
  Matrix3d to_body;  ///< from linchpin's axes to those of MuJoCo's frame
  Vector3d origin;   ///< of MuJoCo's frame, from the centre of mass in linchpin's axes [m]
  FrameOfBody(const mujoco::Solver& solver, int body) : origin(solver.point(body, Vector3d::Zero())) {
    Matrix3d from_body;
    for (int i = 0; i < 3; ++i) from_body.col(i) = solver.axis(body, Vector3d::Unit(i));
    to_body = from_body.transpose();
  }
};

void add_equation(MujocoAttachment& a, const std::string& name, const std::string& key, const std::string& text,
                  const std::vector<NamedFrame>& frames, const std::map<std::string, double>& params,
                  const std::map<std::string, nb::object>& points) {
  const MujocoAttachment::Access access = a.use();
  const Kinematics now(a.model(), a.data());
  Equation e{.name = name, .key = key, .text = text, .bodies = {}, .frames = {}, .params = params};
  std::vector<BodyId> ids;  // of e.bodies
  for (const auto& [frame_name, body, at, turn] : frames) {
    const Vector3d p = vector3_argument(frame_name, at);
    const Quaterniond q = quaternion_argument(frame_name, turn);
    const FrameOfBody frame(access.solver, body);
    const BodyId id = access->id(body);
    std::string of = "world";
    if (id != ground) {
      of = "body " + std::to_string(id.index);
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) {
        const Matrix3d R = now.rotation(body) * frame.to_body;
        ids.push_back(id);
        e.bodies.push_back(
            {of, now.position(body) - R * frame.origin, Quaterniond(Eigen::Quaterniond(R)).normalized()});
      }
    }
    const Matrix3d from_frame = frame.to_body.transpose() * q.toRotationMatrix();
    e.frames.push_back(
        {frame_name, of, access->point(body, p), Quaterniond(Eigen::Quaterniond(from_frame)).normalized()});
    const auto point = points.find(frame_name);
    if (point == points.end() || id == ground) continue;
    const Vector3d in_frame = vector3_argument("application_points[\"" + frame_name + "\"]", point->second);
    e.points.emplace_back(of, access->point(body, p + q * in_frame));
  }
  access->add(constraint_of(e, [&](std::size_t i) { return ids[i]; }));
}

void add_joint(MujocoAttachment& at, const std::string& name, const std::string& kind, int a, const nb::object& at_a,
               const nb::object& axis_a, int b, const nb::object& at_b, const nb::object& axis_b, double length) {
  const MujocoAttachment::Access access = at.use();
  const mujoco::Solver& solver = access.solver;
  access->add(joint_of(name, kind, access->id(a), solver.point(a, vector3_argument("at_a", at_a)),
                       solver.axis(a, vector3_argument("axis_a", axis_a)), access->id(b),
                       solver.point(b, vector3_argument("at_b", at_b)),
                       solver.axis(b, vector3_argument("axis_b", axis_b)), length));
}

mujoco::Handle found(mujoco::Solver& solver, const std::string& name) {
  mujoco::Handle handle = solver.find(name);
  (void)handle.reaction();  // throws with the nearest name
  return handle;
}

// ---- reports ----

std::vector<std::pair<std::string, std::string>> pairs_of(const std::vector<host::HostPart>& parts) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const host::HostPart& part : parts) out.emplace_back(part.name, part.why);
  return out;
}

nb::dict counts_of(const host::Counts& n) {
  nb::dict out;
  out["steps"] = n.steps, out["solves"] = n.solves, out["factorizations"] = n.factorizations;
  out["newton_solves"] = n.newton_solves, out["substepped_steps"] = n.substepped_steps, out["substeps"] = n.substeps;
  out["energy_gains"] = n.energy_gains, out["velocity_residuals"] = n.velocity_residuals;
  out["divided_steps"] = n.divided_steps, out["law_solves"] = n.law_solves, out["mode_switches"] = n.mode_switches;
  out["fallbacks"] = n.fallbacks, out["law_failures"] = n.law_failures, out["non_finite"] = n.non_finite;
  out["gap_corrections"] = n.gap_corrections, out["largest_correction"] = n.largest_correction;
  out["largest_correction_angle"] = n.largest_correction_angle, out["imbalance"] = n.imbalance;
  out["activation_energy"] = n.activation_energy;
  return out;
}

/// The first body of the model that moves as the body with this id; −1: none.
int body_of(mujoco::Solver& solver, const mjModel& m, BodyId id) {
  for (int body = 1; body < m.nbody; ++body)
    if (const Result<BodyId> known = try_call([&] { return solver.id(body); }); known && *known == id) return body;
  return -1;
}

nb::list balances_of(MujocoAttachment& a) {
  const MujocoAttachment::Access access = a.use();
  nb::list out;
  const auto balances = access->momentum_balances();
  const std::vector<MomentumBalance> copy(balances.begin(), balances.end());  // body_of() may make ids
  for (const MomentumBalance& of : copy) {
    const int body = body_of(access.solver, a.model(), of.body);
    if (body < 0) continue;  // a part without mass between two joints of a body
    out.append(nb::make_tuple(body, new_vector(of.momentum), new_vector(of.applied), new_vector(of.host),
                              new_vector(of.constraints), of.imbalance()));
  }
  return out;
}

mujoco::Options options_of(const nb::dict& given) {
  mujoco::Options o;
  const auto set = [&](const char* name, auto& to) {
    if (given.contains(name)) to = nb::cast<std::remove_reference_t<decltype(to)>>(given[name]);
  };
  set("rank_tolerance", o.rank_tolerance), set("newton_tolerance", o.newton_tolerance);
  set("gap_tolerance", o.gap_tolerance), set("max_newton", o.max_newton);
  set("max_tension_frequency", o.max_tension_frequency), set("max_substeps", o.max_substeps);
  set("drift_correction", o.drift_correction), set("max_energy_gain", o.max_energy_gain);
  set("max_velocity_residual", o.max_velocity_residual), set("equalities", o.equalities);
  return o;
}

/// The file of the MuJoCo that this module uses.
std::string library_path() {
  Dl_info info{};
  return dladdr(reinterpret_cast<const void*>(&mj_step), &info) != 0 && info.dli_fname ? info.dli_fname : "";
}

}  // namespace

}  // namespace linchpin::python

NB_MODULE(_mujoco, m) {
  using namespace linchpin::python;
  m.doc() = "linchpin on a model and data of the package mujoco. Use linchpin.mujoco.";
  nb::module_::import_("linchpin._core");  // knows the types
  m.attr("version") = mjVERSION_HEADER;
  m.def("library_path", &library_path);
  nb::class_<MujocoAttachment>(m, "Attachment")
      .def("__init__",
           [](MujocoAttachment* self, const nb::object& model, const nb::object& data, std::uintptr_t model_address,
              std::uintptr_t data_address, const nb::dict& options) {
             new (self) MujocoAttachment(model, data, model_address, data_address, options_of(options));
           })
      .def("sizes",
           [](MujocoAttachment& a) {
             return nb::make_tuple(a.model().nq, a.model().nv, a.model().nbody,
                                   reinterpret_cast<std::uintptr_t>(a.data().xpos));
           })
      .def("step", &MujocoAttachment::step, nb::arg("count"), nb::call_guard<nb::gil_scoped_release>())
      .def("require_between_steps", [](MujocoAttachment& a) { (void)a.use(); })
      .def("detach", &MujocoAttachment::detach)
      .def_prop_ro("detached", &MujocoAttachment::detached)
      .def_prop_rw("enabled", &MujocoAttachment::enabled, &MujocoAttachment::set_enabled)
      .def_prop_ro("t", [](MujocoAttachment& a) { return a.use()->t(); })
      .def("body_pose",
           [](MujocoAttachment& a, int body) {
             const MujocoAttachment::Access access = a.use();
             const Kinematics now(a.model(), a.data());
             return nb::make_tuple(new_vector(now.position(body)), new_matrix(now.rotation(body)));
           })
      .def("add_equation", &add_equation, nb::arg("name"), nb::arg("key"), nb::arg("equation"), nb::arg("frames"),
           nb::arg("params"), nb::arg("points"))
      .def("add_joint", &add_joint, nb::arg("name"), nb::arg("kind"), nb::arg("a"), nb::arg("at_a"), nb::arg("axis_a"),
           nb::arg("b"), nb::arg("at_b"), nb::arg("axis_b"), nb::arg("length"))
      .def("add_law", [](MujocoAttachment& a, const std::string& name,
                         const nb::object& law) { found(a.use().solver, name).law(law_of(law, name)); })
      .def("add_law_on_joint", [](MujocoAttachment& a, const std::string& joint,
                                  const nb::object& law) { a.use()->joint(joint).law(law_of(law, joint)); })
      .def("remove", [](MujocoAttachment& a, const std::string& name) { found(a.use().solver, name).remove(); })
      .def("constraint_names",
           [](MujocoAttachment& a) {
             std::vector<std::string> out;
             const MujocoAttachment::Access access = a.use();
             for (const linchpin::Reaction& r : access->reactions()) out.push_back(r.name);
             return out;
           })
      .def("joint_wrench",
           [](MujocoAttachment& a, const std::string& joint) { return tuple_of(a.use()->joint_wrench(joint)); })
      .def("joint_forces",
           [](MujocoAttachment& a, const std::string& joint) { return dict_of(a.use()->joint_forces(joint)); })
      .def("reactions",
           [](MujocoAttachment& a) {
             const MujocoAttachment::Access access = a.use();
             return arrays_of(access->reactions());
           })
      .def("momentum_balances", &balances_of)
      .def("counts", [](MujocoAttachment& a) { return counts_of(a.use()->counts()); })
      .def("native", [](MujocoAttachment& a) { return pairs_of(a.use()->native()); })
      .def("check",
           [](MujocoAttachment& a) {
             std::vector<std::pair<std::string, std::string>> out;
             for (const linchpin::host::Finding& f : a.use()->check()) out.emplace_back(f.constraint, f.message);
             return out;
           })
      .def("rank",
           [](MujocoAttachment& a) {
             const MujocoAttachment::Access access = a.use();
             const linchpin::RankReport r = access->rank_report();
             std::size_t rows = 0;
             for (const linchpin::Reaction& each : access->reactions()) rows += each.native ? 0 : each.lambda.size();
             return nb::make_tuple(rows, r.rank, r.redundant, r.undetermined, r.contradictory);
           })
      .def("summary", [](MujocoAttachment& a) { return a.use()->summary(); })
      .def("energy", [](MujocoAttachment& a) { return a.use()->energy(); })
      .def("reset", [](MujocoAttachment& a) { a.use()->reset(); });
}
