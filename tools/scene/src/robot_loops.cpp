#include "robot_loops.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#if LINCHPIN_YAML
#include <yaml-cpp/yaml.h>
#endif

namespace linchpin::scene {

#if LINCHPIN_YAML

namespace {

class Reader {
 public:
  Reader(const std::string& text, const std::string& path) : source_(std::make_shared<const Source>(path, text)) {
    if (text.size() > most_bytes) fail({source_, 1, 1}, "the file has more than 1 MB, which is the limit");
    try {
      root_ = YAML::Load(text);
    } catch (const YAML::Exception& e) {
      fail(place(e.mark), "the file is no YAML: " + e.msg);
    }
    if (!root_.IsMap()) fail({source_, 1, 1}, "the file needs the keys closed_loop and type of a robot.yaml");
  }

  RobotLoops read() {
    RobotLoops out;
    check_keys();
    const std::vector<YAML::Node> pairs = list("closed_loop"), types = list("type");
    if (pairs.size() != types.size())
      fail(place_of(types.empty() ? "closed_loop" : "type"),
           "closed_loop has " + count(pairs.size(), "pair") + " of frames, and type has " +
               count(types.size(), "entry", "entries") + ": give one type for each pair");
    std::set<std::string> names;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (!pairs[i].IsSequence() || pairs[i].size() != 2)
        fail(place(pairs[i].Mark()), "closed_loop: each loop is a pair of frames, such as [frame_A, frame_B]");
      RobotLoops::Loop loop;
      loop.place = place(pairs[i].Mark());
      loop.frame_a = text(pairs[i][0], "closed_loop"), loop.frame_b = text(pairs[i][1], "closed_loop");
      loop.name = common_name(loop.frame_a, loop.frame_b);
      if (loop.name.empty() || !names.insert(loop.name).second) {
        loop.name = loop.frame_a + "-" + loop.frame_b;
        if (!names.insert(loop.name).second)
          fail(loop.place, "closed_loop: the pair " + loop.frame_a + ", " + loop.frame_b + " occurs twice");
      }
      const std::string type = lower(text(types[i], "type"));
      if (type != "3d" && type != "6d")
        fail(place(types[i].Mark()), "type: a loop is 3d (a ball joint) or 6d (a weld), not \"" + type + "\"");
      loop.type = type == "3d" ? "ball" : "weld";
      out.loops.push_back(std::move(loop));
    }
    for (const YAML::Node& motor : list("name_mot")) out.motors.push_back(text(motor, "name_mot"));
    const std::vector<YAML::Node> joints = list("joint_name"), kinds = list("joint_type");
    if (joints.size() != kinds.size())
      fail(place_of(joints.empty() ? "joint_type" : "joint_name"),
           "joint_name has " + count(joints.size(), "name") + " and joint_type has " +
               count(kinds.size(), "entry", "entries") + ": give one type for each joint");
    for (std::size_t i = 0; i < joints.size(); ++i)
      out.replacements[text(joints[i], "joint_name")] = replacement(kinds[i], place(joints[i].Mark()));
    return out;
  }

 private:
  static constexpr std::size_t most_bytes = 1 << 20;

  void check_keys() const {
    static const std::vector<std::string> known = {"closed_loop", "type", "name_mot", "joint_name", "joint_type"};
    std::map<std::string, Place> first;
    for (const auto& each : root_) {
      const std::string key = text(each.first, "a key");
      if (const auto [before, is_new] = first.emplace(key, place(each.first.Mark())); !is_new)
        fail(place(each.first.Mark()), "the key " + key + " occurs twice, first in line " +
                                           std::to_string(before->second.line) + ". Write its entries into one list");
      if (std::find(known.begin(), known.end(), key) == known.end())
        fail(place(each.first.Mark()),
             "there is no key \"" + key + "\" in a robot.yaml" + suggestion_or_all(key, known));
    }
    if (!root_["closed_loop"]) fail({source_, 1, 1}, "the file has no closed_loop: [[frame_A, frame_B], …]");
  }

  std::vector<YAML::Node> list(const char* key) const {
    const YAML::Node node = root_[key];
    if (!node || node.IsNull()) return {};
    if (!node.IsSequence()) fail(place(node.Mark()), std::string(key) + " is a list in brackets");
    return {node.begin(), node.end()};
  }

  JointReplacement replacement(const YAML::Node& node, const Place& of_name) const {
    JointReplacement out;
    out.place = of_name;
    const std::string type = lower(text(node, "joint_type"));
    if (type == "spherical") {
      out.type = "ball";
    } else if (type == "fixed") {
      out.type = "weld";
    } else if (type.size() == 9 && type.starts_with("ujoint_") && type[7] != type[8] && axis(type[7]) &&
               axis(type[8])) {
      out.type = "universal";
      out.axis_a = axis(type[7]), out.axis_b = axis(type[8]);
    } else {
      fail(place(node.Mark()),
           "joint_type: a joint becomes SPHERICAL, FIXED or UJOINT_XY with two different axes, not \"" +
               text(node, "joint_type") + "\"");
    }
    return out;
  }

  static std::optional<Vector3d> axis(char name) {
    if (name < 'x' || name > 'z') return {};
    return Vector3d(Vector3d::Unit(name - 'x'));
  }
  static std::string lower(std::string word) {
    std::transform(word.begin(), word.end(), word.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return word;
  }
  static std::string count(std::size_t n, const std::string& one, const std::string& many = {}) {
    return std::to_string(n) + " " + (n == 1 ? one : many.empty() ? one + "s" : many);
  }
  // What both names begin with, without what separates it from the rest: closedloop1 of closedloop1_A, closedloop1_B.
  static std::string common_name(const std::string& a, const std::string& b) {
    std::size_t n = 0;
    while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
    while (n > 0 && !std::isalnum(static_cast<unsigned char>(a[n - 1]))) --n;
    return a.substr(0, n);
  }

  std::string text(const YAML::Node& node, const std::string& key) const {
    if (!node.IsScalar()) fail(place(node.Mark()), key + ": a name was expected here");
    return node.Scalar();
  }
  Place place(const YAML::Mark& mark) const {
    if (mark.is_null()) return {source_, 0, 0};
    return {source_, static_cast<std::size_t>(mark.line) + 1, static_cast<std::size_t>(mark.column) + 1};
  }
  Place place_of(const char* key) const { return root_[key] ? place(root_[key].Mark()) : Place{source_, 0, 0}; }

  std::shared_ptr<const Source> source_;
  YAML::Node root_;
};

}  // namespace

RobotLoops read_robot_loops(const std::string& text, const std::string& path, const Place&) {
  return Reader(text, path).read();
}

#else

RobotLoops read_robot_loops(const std::string&, const std::string&, const Place& from) {
  fail(from, "this linchpin was built without robot.yaml: install libyaml-cpp-dev and build it again");
}

#endif

}  // namespace linchpin::scene
