#include <linchpin/recording.h>

#include "columns.h"

#include "base64.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace linchpin::recording {

namespace {

using Json = nlohmann::ordered_json;
using recording::base64;
static_assert(std::endian::native == std::endian::little, "columns are written as they lie in memory");

std::string in_double(const std::vector<double>& column) {
  return base64(column.data(), column.size() * sizeof(double));
}
std::string in_single(const std::vector<double>& column) {
  const std::vector<float> narrow(column.begin(), column.end());
  return base64(narrow.data(), narrow.size() * sizeof(float));
}
// Quaternions: of the two that are the same turn 16 bits hold either, as no component is above 1.
std::string in_16_bits(const std::vector<double>& column) {
  std::vector<std::int16_t> narrow;
  narrow.reserve(column.size());
  for (const double x : column)
    narrow.push_back(static_cast<std::int16_t>(std::isfinite(x) ? std::lround(std::clamp(x, -1.0, 1.0) * 32767) : 0));
  return base64(narrow.data(), narrow.size() * sizeof(std::int16_t));
}

// A column that says nothing is left out: all zero, or no number in it. A number too small for single precision is
// none there.
bool worth_it(const std::vector<double>& column) {
  return std::any_of(column.begin(), column.end(),
                     [](double x) { return std::isfinite(x) && static_cast<float>(x) != 0; });
}

std::vector<double> sizes(const std::vector<double>& vectors) {
  std::vector<double> out;
  for (std::size_t i = 0; i + 2 < vectors.size(); i += 3)
    out.push_back(Vector3d(vectors[i], vectors[i + 1], vectors[i + 2]).norm());
  return out;
}

const char* kind_name(BodyKind kind) {
  switch (kind) {
    case BodyKind::particle:
      return "particle";
    case BodyKind::fixed:
      return "fixed";
    case BodyKind::kinematic:
      return "kinematic";
    case BodyKind::coordinate:
      return "coordinate";
    default:
      return "rigid";
  }
}

const char* shape_name(VisualShape::Kind kind) {
  switch (kind) {
    case VisualShape::Kind::box:
      return "box";
    case VisualShape::Kind::sphere:
      return "sphere";
    case VisualShape::Kind::capsule:
      return "capsule";
    case VisualShape::Kind::cylinder:
      return "cylinder";
    case VisualShape::Kind::hull:
      return "hull";
    default:
      return "none";
  }
}

void put_shape(Json& out, const VisualShape& shape) {
  out["shape"] = shape_name(shape.kind);
  out["size"] = {shape.size.x(), shape.size.y(), shape.size.z()};
  if (shape.kind != VisualShape::Kind::hull) return;
  std::vector<double> vertices;
  for (const Vector3d& p : shape.vertices) vertices.insert(vertices.end(), {p.x(), p.y(), p.z()});
  out["vertices"] = in_single(vertices);
  out["triangles"] = Json::array();
  for (const auto& triangle : shape.triangles)
    for (const int i : triangle) out["triangles"].push_back(i);
}

}  // namespace

Recording::Recording(const RecordingOptions& options, double dt, long steps, std::vector<Body> bodies,
                     std::vector<Joint> links, std::vector<Signal> signals)
    : bodies_(std::move(bodies)),
      links_(std::move(links)),
      signals_(std::move(signals)),
      dt_(dt),
      steps_(steps),
      worst_gap_(links_.size(), Force::nan),
      full_(options.full) {
  const auto moves = [this](int body) {
    if (body < 0) return false;
    const BodyKind kind = bodies_[static_cast<std::size_t>(body)].kind;
    return kind == BodyKind::rigid || kind == BodyKind::particle;
  };
  for (Joint& link : links_) {
    const auto first = std::find_if(link.bodies.begin(), link.bodies.end(), moves);
    link.on = first == link.bodies.end() ? 0 : static_cast<std::size_t>(first - link.bodies.begin());
  }
  per_frame_ = 8.0 + 20.0 * double(bodies_.size()) + 32.0 * double(links_.size()) + 4.0 * double(signals_.size());
  const double wanted = std::floor(std::max(1.0, 1 / (options.frames_per_second * dt)) + 1e-6);
  const double least = std::min(double(options.least_frames), options.least_bytes / per_frame_);
  if (steps > 0) {
    const double enough = least >= 1 ? std::max(1.0, std::floor(double(steps) / least)) : wanted;
    const double allowed = std::ceil(double(steps) * per_frame_ / options.most_bytes);
    stride_ = std::max(1L, static_cast<long>(std::max(std::min(wanted, enough), allowed)));
    most_bytes_ = std::numeric_limits<double>::infinity();
    return;
  }
  most_bytes_ = options.most_bytes;
  most_stride_ = static_cast<long>(wanted);
  enough_ = 2 * static_cast<long>(std::max(1.0, least));
}

bool Recording::too_many() const {
  if (steps_ > 0 || frames_ <= 2) return false;
  return double(frames_) * per_frame_ > most_bytes_ || (frames_ > enough_ && 2 * stride_ <= most_stride_);
}

// Every other frame, the first kept. What was worst since a frame that goes was worst since the frame before it too.
void Recording::thin() {
  const auto halve = [this](std::vector<double>& column) {
    const std::size_t width = column.size() / static_cast<std::size_t>(frames_);
    for (std::size_t to = 0; 2 * to < static_cast<std::size_t>(frames_); ++to)
      std::copy_n(&column[2 * to * width], width, &column[to * width]);
    column.resize((static_cast<std::size_t>(frames_) + 1) / 2 * width);
  };
  const auto worse = [](double& a, double b) {
    if (std::isfinite(b) && !(std::abs(a) >= std::abs(b))) a = b;
  };
  const std::size_t n = links_.size();
  for (std::size_t odd = 1; odd < static_cast<std::size_t>(frames_); odd += 2) {
    const bool last = odd + 1 == static_cast<std::size_t>(frames_);
    for (std::size_t i = 0; i < n; ++i) worse(last ? worst_gap_[i] : gap_[(odd + 1) * n + i], gap_[odd * n + i]);
    worse(last ? worst_energy_ : energy_[odd + 1], energy_[odd]);
  }
  for (auto* column : {&t_, &position_, &turn_, &energy_, &coordinates_, &gap_, &force_, &moment_, &ideal_, &nonideal_,
                       &stabilisation_, &signal_, &point_, &place_})
    if (!column->empty()) halve(*column);
  frames_ = (frames_ + 1) / 2;
  stride_ *= 2;
}

void Recording::state(double t, std::span<const BodyState> states, std::span<const double> gaps, double energy) {
  if (is_frame_) pad();
  if (too_many()) thin();
  for (std::size_t i = 0; i < links_.size() && i < gaps.size(); ++i)
    if (std::isfinite(gaps[i]) && !(std::abs(worst_gap_[i]) >= std::abs(gaps[i]))) worst_gap_[i] = gaps[i];
  if (count_ == 0) start_energy_ = energy;
  const double error = energy - start_energy_;
  if (std::isfinite(error)) any_energy_ = true;
  if (!(std::abs(worst_energy_) >= std::abs(error))) worst_energy_ = error;
  is_frame_ = in_frame_ = count_ % stride_ == 0 || (steps_ > 0 && count_ == steps_);
  ++count_;
  now_t_ = t;
  now_.assign(states.begin(), states.end());
  if (is_frame_) put_frame();
}

void Recording::put_frame() {
  ++frames_;
  t_.push_back(now_t_);
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    const BodyState& s = now_[i];
    if (bodies_[i].kind == BodyKind::coordinate) {
      coordinates_.insert(coordinates_.end(), {s.p.x(), s.v.x()});
      continue;
    }
    position_.insert(position_.end(), {s.p.x(), s.p.y(), s.p.z()});
    turn_.insert(turn_.end(), {s.q.x(), s.q.y(), s.q.z(), s.q.w()});
  }
  for (double& gap : worst_gap_) {
    gap_.push_back(std::abs(gap));
    gap = Force::nan;
  }
  energy_.push_back(worst_energy_);
  worst_energy_ = 0;
}

void Recording::forces(std::span<const Force> forces, std::span<const double> signals) {
  if (!is_frame_) return;
  is_frame_ = false;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const bool known = i < forces.size();
    const Force& f = known ? forces[i] : Force();
    const auto put = [known](std::vector<double>& column, double x) { column.push_back(known ? x : Force::nan); };
    for (int k = 0; k < 3; ++k) put(force_, f.on.force[k]);
    const int first = links_[i].bodies.empty() ? -1 : links_[i].bodies[links_[i].on];
    const BodyState on = first < 0 ? BodyState() : now_[static_cast<std::size_t>(first)];
    const Vector3d p = on.q.conjugate() * (f.on.point - on.p);
    for (int k = 0; k < 3; ++k) put(point_, p[k]);
    for (int k = 0; k < 3; ++k) put(place_, f.on.point[k]);
    for (int k = 0; k < 3; ++k) put(moment_, f.on.moment[k]);
    put(ideal_, f.ideal);
    put(nonideal_, f.nonideal);
    put(stabilisation_, f.stabilisation);
  }
  for (std::size_t i = 0; i < signals_.size(); ++i) signal_.push_back(i < signals.size() ? signals[i] : Force::nan);
}

void Recording::pad() { forces({}, {}); }

// Whether the point of a link stays the same on its body; then it is `at`.
bool recording::Columns::stays(const Recording& r, std::size_t link, Json& at) {
  const double* first = nullptr;
  for (std::size_t frame = 0; frame < static_cast<std::size_t>(r.frames_); ++frame) {
    const double* p = &r.point_[(frame * r.links_.size() + link) * 3];
    if (!std::isfinite(p[0])) continue;
    if (!first) first = p;
    for (int k = 0; k < 3; ++k)
      if (std::abs(p[k] - first[k]) > 1e-4) return false;
  }
  if (first) at = {static_cast<float>(first[0]), static_cast<float>(first[1]), static_cast<float>(first[2])};
  return true;
}

Json recording::Columns::json(Recording r) {
  if (r.is_frame_) r.pad();
  if (r.count_ > 0 && !r.in_frame_) {  // it ended sooner, or nobody knew when: a run is shown to its last state
    r.put_frame();
    r.is_frame_ = true;
    r.pad();
  }
  Json out;
  out["frames"] = r.frames_;
  out["every"] = r.stride_;
  out["dt"] = r.dt_;
  out["bodies"] = Json::array();
  for (const Recording::Body& body : r.bodies_) {
    Json each = {{"name", body.name}, {"kind", kind_name(body.kind)}};
    if (body.kind == BodyKind::coordinate) {
      each["unit"] = body.unit;
      each["force_unit"] = body.force_unit;
    } else {
      put_shape(each, body.shape);
      for (const PlacedVisualShape& part : body.parts) {
        Json placed;
        put_shape(placed, part.shape);
        placed["position"] = {part.position.x(), part.position.y(), part.position.z()};
        placed["rotation"] = {part.turn.x(), part.turn.y(), part.turn.z(), part.turn.w()};
        each["parts"].push_back(std::move(placed));
      }
    }
    out["bodies"].push_back(std::move(each));
  }
  // Where a force acts stays the same on its body for most joints: then it is said once.
  std::vector<double> moving;
  out["constraints"] = Json::array();
  std::vector<char> still(r.links_.size(), 1);
  for (std::size_t i = 0; i < r.links_.size(); ++i) {
    const Recording::Joint& link = r.links_[i];
    Json each = {{"name", link.name}, {"unit", link.unit}, {"bodies", link.bodies}, {"on", link.on}};
    Json at;
    still[i] = stays(r, i, at) && !at.is_null();
    each["at"] = std::move(at);
    out["constraints"].push_back(std::move(each));
  }
  for (std::size_t frame = 0; frame < static_cast<std::size_t>(r.frames_); ++frame)
    for (std::size_t i = 0; i < r.links_.size(); ++i)
      for (std::size_t k = 0; k < 3 && !still[i]; ++k)
        moving.push_back(r.point_[(frame * r.links_.size() + i) * 3 + k]);
  out["signals"] = Json::array();
  for (const Recording::Signal& signal : r.signals_)
    out["signals"].push_back({{"name", signal.name}, {"unit", signal.unit}});
  out["energy_at_start_J"] = r.any_energy_ ? Json(r.start_energy_) : Json();
  Json columns;
  columns["t"] = in_single(r.t_);
  columns["position"] = in_single(r.position_);
  columns["rotation"] = in_16_bits(r.turn_);
  columns["coordinate"] = in_single(r.coordinates_);
  columns["gap"] = in_single(r.gap_);
  if (r.any_energy_) columns["energy"] = in_single(r.energy_);
  columns["force"] = in_single(r.force_);
  if (std::any_of(moving.begin(), moving.end(), [](double x) { return std::isfinite(x); }))
    columns["point"] = in_single(moving);
  if (const auto moments = sizes(r.moment_); worth_it(moments)) columns["moment"] = in_single(moments);
  // Without a law the ideal part is the whole.
  if (worth_it(r.nonideal_)) {
    columns["ideal"] = in_single(r.ideal_);
    columns["nonideal"] = in_single(r.nonideal_);
  }
  if (worth_it(r.stabilisation_)) columns["stabilisation"] = in_single(r.stabilisation_);
  columns["signal"] = in_single(r.signal_);
  out["columns"] = std::move(columns);
  if (r.full_) {
    Json& full = out["full"];
    full["t"] = in_double(r.t_);
    full["position"] = in_double(r.position_);
    full["rotation"] = in_double(r.turn_);
    full["coordinate"] = in_double(r.coordinates_);
    full["gap"] = in_double(r.gap_);
    if (r.any_energy_) full["energy"] = in_double(r.energy_);
    full["force"] = in_double(r.force_);
    full["moment"] = in_double(r.moment_);
    full["place"] = in_double(r.place_);
    for (const auto& [name, column] : {std::pair("ideal", &r.ideal_), std::pair("nonideal", &r.nonideal_),
                                       std::pair("stabilisation", &r.stabilisation_)})
      full[name] = in_double(*column);
    full["signal"] = in_double(r.signal_);
  }
  return out;
}

}  // namespace linchpin::recording
