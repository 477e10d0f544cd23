#include "recording.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <string_view>

namespace linchpin::cli {

namespace {

using Json = nlohmann::ordered_json;
static_assert(std::endian::native == std::endian::little, "columns are written as they lie in memory");

template <class T>
std::string base64(const std::vector<T>& column) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto* bytes = reinterpret_cast<const unsigned char*>(column.data());
  const std::size_t n = column.size() * sizeof(T);
  std::string out;
  out.reserve((n + 2) / 3 * 4);
  for (std::size_t i = 0; i < n; i += 3) {
    const std::size_t left = std::min<std::size_t>(3, n - i);
    const unsigned a = bytes[i], b = left > 1 ? bytes[i + 1] : 0u, c = left > 2 ? bytes[i + 2] : 0u;
    const unsigned word = a << 16 | b << 8 | c;
    for (std::size_t k = 0; k < 4; ++k) out += k <= left ? letters[word >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

// A column that says nothing is left out: all zero, or no number in it.
bool worth_it(const std::vector<float>& column) {
  return std::any_of(column.begin(), column.end(), [](float x) { return std::isfinite(x) && x != 0; });
}

const char* kind_name(BodyKind kind) {
  switch (kind) {
    case BodyKind::particle:
      return "particle";
    case BodyKind::fixed:
      return "fixed";
    case BodyKind::driven:
      return "driven";
    case BodyKind::coordinate:
      return "coordinate";
    default:
      return "rigid";
  }
}

const char* shape_name(Shape::Kind kind) {
  switch (kind) {
    case Shape::Kind::box:
      return "box";
    case Shape::Kind::sphere:
      return "sphere";
    case Shape::Kind::capsule:
      return "capsule";
    case Shape::Kind::cylinder:
      return "cylinder";
    default:
      return "none";
  }
}

}  // namespace

Recording::Recording(const RecordingOptions& options, double dt, long steps, std::vector<Body> bodies,
                     std::vector<Link> links, std::vector<Signal> signals)
    : bodies_(std::move(bodies)),
      links_(std::move(links)),
      signals_(std::move(signals)),
      dt_(dt),
      worst_gap_(links_.size(), Force::nan) {
  const auto moves = [this](int body) {
    if (body < 0) return false;
    const BodyKind kind = bodies_[static_cast<std::size_t>(body)].kind;
    return kind == BodyKind::rigid || kind == BodyKind::particle;
  };
  for (Link& link : links_) {
    const auto first = std::find_if(link.bodies.begin(), link.bodies.end(), moves);
    link.on = first == link.bodies.end() ? 0 : static_cast<std::size_t>(first - link.bodies.begin());
  }
  const double per_frame =
      8.0 + 20.0 * double(bodies_.size()) + 32.0 * double(links_.size()) + 4.0 * double(signals_.size());
  const double wanted = std::max(1.0, 1 / (options.frames_per_second * dt));
  const double allowed = double(steps) * per_frame / options.most_bytes;
  stride_ = std::max(1L, static_cast<long>(std::max(std::floor(wanted + 1e-6), std::ceil(allowed))));
}

void Recording::state(double t, std::span<const BodyState> states, std::span<const double> gaps, double energy) {
  if (is_frame_) pad();
  for (std::size_t i = 0; i < links_.size() && i < gaps.size(); ++i)
    if (std::isfinite(gaps[i]) && !(std::abs(worst_gap_[i]) >= std::abs(gaps[i]))) worst_gap_[i] = gaps[i];
  if (count_ == 0) start_energy_ = energy;
  const double error = energy - start_energy_;
  if (std::isfinite(error)) any_energy_ = true;
  if (!(std::abs(worst_energy_) >= std::abs(error))) worst_energy_ = error;
  is_frame_ = count_ % stride_ == 0;
  ++count_;
  if (!is_frame_) return;
  ++frames_;
  now_.assign(states.begin(), states.end());
  t_.push_back(static_cast<float>(t));
  for (std::size_t i = 0; i < bodies_.size(); ++i) {
    const BodyState& s = states[i];
    if (bodies_[i].kind == BodyKind::coordinate) {
      for (const double x : {s.p.x(), s.v.x()}) coordinates_.push_back(static_cast<float>(x));
      continue;
    }
    for (int k = 0; k < 3; ++k) position_.push_back(static_cast<float>(s.p[k]));
    // Of the two that are the same turn, the one that 16 bits interpolate: |component| ≤ 1.
    for (const double e : {s.q.x(), s.q.y(), s.q.z(), s.q.w()})
      turn_.push_back(static_cast<std::int16_t>(std::lround(std::clamp(e, -1.0, 1.0) * 32767)));
  }
  for (double& gap : worst_gap_) {
    gap_.push_back(static_cast<float>(std::abs(gap)));
    gap = Force::nan;
  }
  energy_.push_back(static_cast<float>(worst_energy_));
  worst_energy_ = 0;
}

void Recording::forces(std::span<const Force> forces, std::span<const double> signals) {
  if (!is_frame_) return;
  is_frame_ = false;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const bool known = i < forces.size();
    const Force& f = known ? forces[i] : Force();
    const auto put = [known](std::vector<float>& column, double x) {
      column.push_back(static_cast<float>(known ? x : Force::nan));
    };
    for (int k = 0; k < 3; ++k) put(force_, f.on.force[k]);
    const int first = links_[i].bodies.empty() ? -1 : links_[i].bodies[links_[i].on];
    const BodyState on = first < 0 ? BodyState() : now_[static_cast<std::size_t>(first)];
    const Vector3d p = on.q.conjugate() * (f.on.point - on.p);
    for (int k = 0; k < 3; ++k) put(point_, p[k]);
    put(moment_, f.on.moment.norm());
    put(ideal_, f.ideal);
    put(nonideal_, f.nonideal);
    put(stabilisation_, f.stabilisation);
  }
  for (std::size_t i = 0; i < signals_.size(); ++i)
    signal_.push_back(static_cast<float>(i < signals.size() ? signals[i] : Force::nan));
}

void Recording::pad() { forces({}, {}); }

bool Recording::stays(std::size_t link, Json& at) const {
  const float* first = nullptr;
  for (std::size_t frame = 0; frame < static_cast<std::size_t>(frames_); ++frame) {
    const float* p = &point_[(frame * links_.size() + link) * 3];
    if (!std::isfinite(p[0])) continue;
    if (!first) first = p;
    for (int k = 0; k < 3; ++k)
      if (std::abs(p[k] - first[k]) > 1e-4f) return false;
  }
  if (first) at = {first[0], first[1], first[2]};
  return true;
}

Json Recording::json() const {
  Recording whole = *this;
  if (whole.is_frame_) whole.pad();
  const Recording& r = whole;
  Json out;
  out["frames"] = r.frames_;
  out["every"] = r.stride_;
  out["dt"] = r.dt_;
  out["bodies"] = Json::array();
  for (const Body& body : r.bodies_) {
    Json each = {{"name", body.name}, {"kind", kind_name(body.kind)}};
    if (body.kind == BodyKind::coordinate) {
      each["unit"] = body.unit;
    } else {
      each["shape"] = shape_name(body.shape.kind);
      each["size"] = {body.shape.size.x(), body.shape.size.y(), body.shape.size.z()};
    }
    out["bodies"].push_back(std::move(each));
  }
  // Where a force acts stays the same on its body for most joints: then it is said once.
  std::vector<float> moving;
  out["constraints"] = Json::array();
  std::vector<char> stays(r.links_.size(), 1);
  for (std::size_t i = 0; i < r.links_.size(); ++i) {
    const Link& link = r.links_[i];
    Json each = {{"name", link.name}, {"unit", link.unit}, {"bodies", link.bodies}, {"on", link.on}};
    Json at;
    stays[i] = r.stays(i, at);
    each["at"] = std::move(at);
    out["constraints"].push_back(std::move(each));
  }
  for (std::size_t frame = 0; frame < static_cast<std::size_t>(r.frames_); ++frame)
    for (std::size_t i = 0; i < r.links_.size(); ++i)
      for (std::size_t k = 0; k < 3 && !stays[i]; ++k)
        moving.push_back(r.point_[(frame * r.links_.size() + i) * 3 + k]);
  out["signals"] = Json::array();
  for (const Signal& signal : r.signals_) out["signals"].push_back({{"name", signal.name}, {"unit", signal.unit}});
  out["energy_at_start_J"] = r.any_energy_ ? Json(r.start_energy_) : Json();
  Json columns;
  columns["t"] = base64(r.t_);
  columns["position"] = base64(r.position_);
  columns["turn"] = base64(r.turn_);
  columns["coordinate"] = base64(r.coordinates_);
  columns["gap"] = base64(r.gap_);
  if (r.any_energy_) columns["energy"] = base64(r.energy_);
  columns["force"] = base64(r.force_);
  if (!moving.empty()) columns["point"] = base64(moving);
  if (worth_it(r.moment_)) columns["moment"] = base64(r.moment_);
  // Without a law the ideal part is the whole.
  if (worth_it(r.nonideal_)) {
    columns["ideal"] = base64(r.ideal_);
    columns["nonideal"] = base64(r.nonideal_);
  }
  if (worth_it(r.stabilisation_)) columns["stabilisation"] = base64(r.stabilisation_);
  columns["signal"] = base64(r.signal_);
  out["columns"] = std::move(columns);
  return out;
}

}  // namespace linchpin::cli
