// Reading a scene: one pass for what there is (bodies), one for what relates it (joints, constraints, forces), one for
// what is asked of it (logs, expectations). Includes and generators put their parts into the same lists.
#include "actuator.h"
#include "channel.h"
#include "compound_joint.h"
#include "joint_replacement.h"
#include "loop_assembly.h"
#include "mesh_decomposition.h"
#include "parts.h"
#include "renamed.h"
#include "robot.h"
#include "robot_loops.h"
#include "source.h"
#include "start_velocities.h"

#include <linchpin/dynamics.h>
#include <linchpin/scene.h>
#include <linchpin/scene/columns.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <list>
#include <set>
#include <tuple>
#include <utility>

namespace linchpin::scene {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t largest_file = 8u << 20, most_bodies = 200000, most_includes = 16, most_coordinates = 60;
// Tables within tables of one key. toml++ limits how deep values nest (256), not how many parts a key has, and takes a
// table apart by recursion: with both, 4000 deep is the most.
constexpr std::size_t most_parts = 16;

// `linchpin::Host` by the names files use.
const std::vector<std::string> method_names = [] {
  std::vector<std::string> names;
  for (const Method method : all_methods) names.emplace_back(to_string(method));
  return names;
}();
const std::vector<std::string> host_names = {"bare", "bullet", "bullet-float64"};

// What of a robot a file is by its name, whatever its case: the key of [model] that takes it.
const char* robot_key(const std::string& path) {
  std::string extension = fs::path(path).extension().string();
  for (char& c : extension) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return extension == ".urdf" ? "urdf" : extension == ".sdf" ? "sdf" : nullptr;
}

std::string read_text(const std::string& path, const Place& from) {
  const std::string who = from.line > 0 ? "\"" + path + "\": " : "";
  std::error_code error;
  const auto status = fs::status(path, error);
  if (!fs::exists(status)) fail(from, who + "the file does not exist");
  if (fs::is_directory(status)) fail(from, who + "is a directory");
  // A pipe waits for who knows whom.
  if (!fs::is_regular_file(status)) fail(from, who + "is not a regular file");
  std::ifstream in(path, std::ios::binary);
  std::string text;
  text.resize(largest_file + 1);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || !in.is_open()) fail(from, who + "cannot be read");
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > largest_file) fail(from, who + "is larger than 8 MB, which is the limit for scenes and robots");
  return text;
}

// What toml++ 3.3 must not be given, and where.
struct Damage {
  std::size_t at = 0;
  std::string what;
};

// Looks for two things ahead of the parser. A byte beyond ASCII that stands in no string and no comment, where TOML has
// no place for one, or first after a folded line: the parser takes for impossible what such letters do to it. And a key
// of so many parts that its tables overflow the stack.
std::optional<Damage> damage(std::string_view text) {
  constexpr const char* beyond_ascii =
      "a letter outside ASCII is allowed in quotes and in comments only. In quotes it may not be the first letter "
      "after "
      "a line that ends with \\";
  std::size_t at = text.starts_with("\xEF\xBB\xBF") ? 3 : 0, dots = 0;
  char before = '\n';  // the last that is no blank: a quote after a number, say, begins no string
  while (at < text.size()) {
    const char c = text[at];
    if (static_cast<unsigned char>(c) >= 0x80) return Damage{at, beyond_ascii};
    if (c == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else if ((c == '"' || c == '\'') && std::string_view("\n=.,[{").find(before) != std::string_view::npos) {
      before = c;
      const std::string three(3, c);
      const bool lines = text.substr(at, 3) == three;
      at += lines ? 3 : 1;
      for (; at < text.size(); ++at) {
        if (c == '"' && text[at] == '\\') {
          const std::size_t next = text.find_first_not_of(" \t\r\n", at + 1);
          const bool folded = lines && text.substr(at, next - at).find('\n') != std::string_view::npos;
          if (folded && next < text.size() && static_cast<unsigned char>(text[next]) >= 0x80)
            return Damage{next, beyond_ascii};
          ++at;
        } else if (!lines && (text[at] == c || text[at] == '\n')) {
          ++at;
          break;
        } else if (lines && text.substr(at, 3) == three) {
          at += 3;
          while (at < text.size() && text[at] == c) ++at;  // a string may end in quotes
          break;
        }
      }
    } else {
      // A key ends at '=', a bracket or its line; a number has one dot at most.
      if (c == '.' && ++dots == most_parts)
        return Damage{at, "a key of more than " + std::to_string(most_parts) + " parts"};
      if (c == '=' || c == ',' || c == '[' || c == ']' || c == '{' || c == '}' || c == '\n') dots = 0;
      if (c != ' ' && c != '\t' && c != '\r') before = c;
      ++at;
    }
  }
  return {};
}

}  // namespace

class SceneReader {
 public:
  SceneReader(Model& model, const BulletImporter& import, const Overrides& overrides)
      : model_(model), import_(import), overrides_(overrides) {}

  void read(std::string_view text, const std::string& path) {
    model_.file = path;
    read_file(text, path, true);
    if (needs_host_) refuse_without_host();
    if (model_.robots > 0 && !model_.gravity_given) model_.gravity = {0, 0, -9.81};  // z is up in URDF and SDF
    if (as_multibody_ && !host_given_) model_.host = Host::bullet_float64;
    if (overrides_.robots && model_.robots == 0)
      throw std::invalid_argument("the scene has no robot ([model]) that could be made as bodies or as a multibody");
    related();
    asked();
  }

  void read_bullet_alone(const std::string& path) {
    model_.file = path;
    model_.host = Host::bullet_float64;
    files_.emplace_back();
    Context& context = files_.back().context;
    context.source = std::make_shared<const scene::Source>(path, std::string());
    outermost_ = &context;
    read_bullet({fs::path(path).filename().string(), {context.source, 0, 0}, false}, path);
    if (needs_host_) refuse_without_host();
    related();
  }

 private:
  struct File {
    Context context;
    toml::table root;
  };
  // A table for the second pass, with the constants and indices it stood among.
  struct Later {
    enum class What { joint, constraint, force } what;
    const toml::table* table;
    Context context;
  };

  [[noreturn]] void refuse_without_host() const {
    try {
      if (model_.mjcf_file.empty())
        fail(needs_host_->place,
             "\"" + needs_host_->value + "\" is read by Bullet, so this scene needs --host bullet or bullet-float64");
      fail(needs_host_->place,
           "\"" + needs_host_->value +
               "\" is read by MuJoCo. Only \"linchpin run\" and \"linchpin compare\" take such a scene");
    } catch (const SceneError& e) {
      throw NeedsHost(e, model_.dt, model_.duration, model_.host, model_.files, !model_.mjcf_file.empty(), host_given_);
    }
  }

  // ---- first pass ----

  void read_file(std::string_view text, const std::string& path, bool outermost) {
    files_.emplace_back();
    model_.files.push_back(path);
    File& file = files_.back();
    file.context.source = std::make_shared<const scene::Source>(path, std::string(text));
    const Place whole{file.context.source, 0, 0};
    if (text.size() > largest_file) fail(whole, "is larger than 8 MB, which is the limit for scenes and robots");
    if (text.find('\0') != std::string_view::npos) fail(whole, "is not a text file: it contains bytes of value 0");
    if (const auto found = damage(text)) {
      const std::string_view before = text.substr(0, found->at);
      const auto line = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + 1;
      const std::size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
      fail({file.context.source, line, found->at - start + 1}, found->what);
    }
    try {
      file.root = toml::parse(file.context.source->text, std::string_view(path));
    } catch (const toml::parse_error& e) {
      const auto at = e.source().begin;
      std::string what(e.description());
      fail({file.context.source, std::max<std::size_t>(at.line, 1), std::max<std::size_t>(at.column, 1)}, what);
    }
    Table root(file.context, file.root, "scene");
    if (const toml::node& node = root.need("schema"); !node.is_integer())
      root.refuse("schema", "schema is a whole number without quotes or a point: schema = " + std::to_string(schema));
    const int written = root.whole("schema", 0, 1000000);
    const std::string present = "schema = " + std::to_string(schema);
    if (written == 1)
      root.refuse("schema", "this scene is of schema 1, whose keys were renamed: write " + present +
                                ", and the messages that follow name each key that is to be renamed");
    if (written != schema) root.refuse("schema", "schema " + std::to_string(written) + " is unknown: write " + present);
    root.accept_only({"schema",     "title",  "params", "definitions", "include", "world",      "solver",   "start",
                      "lagrangian", "model",  "body",   "coordinate",  "joint",   "constraint", "force",    "chain",
                      "grid",       "repeat", "attach", "sensor",      "log",     "expect",     "actuator", "frame"});
    read_params(root, file.context, outermost);
    if (auto texts = root.definitions("definitions", file.context.names); !texts.empty())
      definitions_.emplace_back(&file.context, std::move(texts));
    if (root.has("include"))
      for (const Text& include : root.texts("include")) read_include(include, path);
    const toml::table* const model = root.table("model");
    const bool as_scene = model && model->contains("mjcf") && overrides_.mjcf_scene;
    if (as_scene)
      read_mjcf(Table(file.context, *model, "model"), path);  // as an include, whose values [world] replaces
    if (const toml::table* table = root.table("world")) read_world(Table(file.context, *table, "world"));
    if (const toml::table* solver = root.table("solver")) read_solver(Table(file.context, *solver, "solver"));
    if (const toml::table* start = root.table("start")) starts_.emplace_back(start, &file.context);
    if (const toml::table* lagrangian = root.table("lagrangian")) {
      if (lagrangian_) root.refuse("lagrangian", "a scene has one [lagrangian]; the other stands in an included file");
      lagrangian_ = {lagrangian, &file.context};
    }
    if (model && !as_scene) read_model(Table(file.context, *model, "model"), file.context, path);
    read_parts(root, file.context);
    for (const toml::table* table : root.tables("chain"))
      read_chain(Table(file.context, *table, "chain"), file.context);
    for (const toml::table* table : root.tables("grid")) read_grid(Table(file.context, *table, "grid"), file.context);
    for (const toml::table* table : root.tables("repeat")) read_repeat(*table, file.context.inside(), 0);
    for (const toml::table* table : root.tables("attach")) attached_.emplace_back(table, &file.context);
    for (const toml::table* table : root.tables("actuator")) actuators_.emplace_back(table, &file.context);
    for (const toml::table* table : root.tables("sensor")) sensors_.emplace_back(table, &file.context);
    const auto logs = root.tables("log"), expectations = root.tables("expect");
    if (outermost) {  // of an included scene they are not true any more
      outermost_ = &file.context;
      logs_ = logs;
      expectations_ = expectations;
    }
    (void)root.text_if("title");
  }

  void read_params(Table& root, Context& context, bool outermost) {
    const std::map<std::string, double, std::less<>> none;
    const auto& instead = outermost ? overrides_.params : none;
    root.constants("params", context.names.constants, instead);
    const toml::table* params = root.table("params");
    for (const auto& [key, node] : params ? *params : toml::table())
      params_.try_emplace({context.source.get(), std::string(key.str())},
                          Place{context.source, key.source().begin.line, key.source().begin.column});
    for (const auto& [name, value] : instead) {
      if (params && params->contains(name) && !params->get(name)->is_array()) continue;
      std::vector<std::string> known;
      for (const auto& [key, node] : params ? *params : toml::table())
        if (!node.is_array()) known.emplace_back(key.str());
      throw std::invalid_argument("the scene has no number \"" + name + "\" in [params]" +
                                  scene::suggestion_or_all(name, known));
    }
  }

  void read_include(const Text& include, const std::string& from) {
    const fs::path path = (fs::path(from).parent_path() / include.value).lexically_normal();
    if (const char* key = robot_key(include.value))
      fail(include.place,
           "\"" + include.value + "\" is a robot, no scene: [model] " + key + " = \"" + include.value + "\"");
    std::error_code error;
    const std::string real = fs::weakly_canonical(path, error).string();
    const std::string own = fs::weakly_canonical(from, error).string();
    if (including_.empty()) including_.push_back(own);
    if (std::find(including_.begin(), including_.end(), real) != including_.end())
      fail(include.place, "\"" + include.value + "\" includes itself, by way of " + from);
    if (++includes_ > most_includes)
      fail(include.place, "the scene has more than " + std::to_string(most_includes) + " includes, which is the limit");
    if (path.extension() == ".bullet") {
      read_bullet(include, path.string());
      return;
    }
    const std::string text = read_text(path.string(), include.place);
    including_.push_back(real);
    read_file(text, path.string(), false);
    including_.pop_back();
  }

  void read_bullet(const Text& include, const std::string& path) {
    if (!model_.bullet_file.empty()) fail(include.place, "a scene can include at most one .bullet file");
    if (!model_.bodies.empty()) fail(include.place, "put the include of the .bullet file before all [[body]] tables");
    model_.bullet_file = path;
    model_.files.push_back(path);
    if (!import_) {
      needs_host_ = include;
      return;
    }
    read_imported(import_, path, include);
  }

  // The bodies of a file that a host reads, its joints and its frames.
  void read_imported(const BulletImporter& import, const std::string& path, const Text& named_by) {
    try {
      Imported file = import(path);
      for (SceneBody& body : file.bodies) {
        body.imported = true;
        add_body(std::move(body), named_by.place);
      }
      for (SceneConstraint& joint : file.joints) {
        joint.imported = joint.imported || model_.mjcf_file.empty();
        add(std::move(joint), named_by.place);
      }
      for (SceneFrame& frame : file.frames) add_frame(std::move(frame), named_by.place);
      model_.native.insert(model_.native.end(), file.native.begin(), file.native.end());
      if (file.gravity && !model_.gravity_given) model_.gravity = *file.gravity;
      if (file.dt && !dt_given_) model_.dt = *file.dt;
    } catch (const SceneError&) {
      throw;
    } catch (const std::exception& e) {
      fail(named_by.place, "\"" + named_by.value + "\" " + e.what());
    }
  }

  // MuJoCo reads the file. It has its bodies and joints, or gives its scene to another host.
  void read_mjcf(Table table, const std::string& from) {
    const Text file = table.text("mjcf");
    for (const char* other : {"urdf", "sdf"})
      if (table.has(other)) table.refuse(other, "a model has one file: urdf, sdf or mjcf");
    table.accept_only({"mjcf"});
    if (has_mjcf_) fail(file.place, "a scene has at most one MJCF file");
    has_mjcf_ = true;
    const fs::path path = (fs::path(from).parent_path() / file.value).lexically_normal();
    if (overrides_.mjcf_scene) return read_scene_of_mjcf(path.string(), file);
    if (!model_.bodies.empty() || !model_.bullet_file.empty())
      fail(file.place, "a scene with an MJCF file has no other file with bodies");
    model_.mjcf_file = path.string();
    model_.files.push_back(path.string());
    if (!overrides_.mjcf) {
      needs_host_ = file;
      return;
    }
    read_imported(overrides_.mjcf, path.string(), file);
  }

  void read_scene_of_mjcf(const std::string& path, const Text& named_by) {
    MjcfScene scene;
    try {
      scene = overrides_.mjcf_scene(path);
    } catch (const std::exception& e) {
      fail(named_by.place, "\"" + named_by.value + "\": " + e.what());
    }
    const std::size_t at = model_.files.size();
    read_file(scene.text, path + " (as a scene)", false);
    model_.files[at] = path;
    model_.notes.insert(model_.notes.begin(), scene.notes.begin(), scene.notes.end());
  }

  // Links become bodies now, joints constraints once all bodies are known.
  void read_model(Table table, Context& context, const std::string& from) {
    if (table.has("mjcf")) return read_mjcf(std::move(table), from);
    if (table.has("urdf") && table.has("sdf")) table.refuse("sdf", "a model has one file: urdf or sdf");
    scene::RobotOptions options;
    if (table.has("sdf")) options.format = scene::RobotFormat::sdf;
    const bool inside = table.has("urdf_text");
    if (inside && (table.has("urdf") || table.has("sdf")))
      table.refuse("urdf_text", "a model has one of urdf, sdf and urdf_text");
    const Text file = table.text(inside ? "urdf_text" : options.format == scene::RobotFormat::sdf ? "sdf" : "urdf");
    const fs::path path =
        inside ? fs::path(from + " (urdf_text)") : (fs::path(from).parent_path() / file.value).lexically_normal();
    const std::size_t as = table.word("as", {"bodies", "multibody"}, 0);
    options.multibody = overrides_.robots.value_or(static_cast<RobotsAs>(as)) == RobotsAs::multibody;
    as_multibody_ = as_multibody_ || options.multibody;
    if (options.multibody && !model_.bullet_file.empty())
      fail(file.place, "a robot beside a .bullet file is made as bodies, not as a multibody");
    if (const auto prefix = table.text_if("prefix")) options.prefix = prefix->value;
    if (table.has("fixed_base")) options.fixed_base = table.flag("fixed_base", false);
    options.merge_fixed = table.flag("merge_fixed", false);
    options.self_collision = table.flag("self_collision", false);
    options.link_axes = table.word("body_axes", {"principal", "link"}, 0) == 1;
    if (table.has("convex_decomposition"))
      options.mesh_hulls = static_cast<std::size_t>(
          table.whole("convex_decomposition", 1, static_cast<int>(scene::most_decomposition_hulls)));
    options.base = {table.vector("position", Vector3d::Zero()), scene::read_rotation(table, context)};
    for (const auto& [key, into] : {std::pair("joints", &options.joints), std::pair("rates", &options.rates)}) {
      const toml::table* given = table.table(key);
      if (!given) continue;
      Table numbers(context, *given, std::string("model, ") + key);
      for (const auto& [name, node] : *given)
        (*into)[std::string(name.str())] = {numbers.number(name.str()), scene::place_of(context, node)};
      for (const auto& [name, value] : *into)
        if (into == &options.joints)
          given_positions_.insert(options.prefix + name);
        else
          given_rates_[options.prefix + name] = value;
    }
    for (const auto& [key, into] :
         {std::pair("velocity", &options.velocity), std::pair("angular_velocity", &options.angular_velocity)}) {
      *into = table.vector(key, Vector3d::Zero());
      if (!into->isZero()) options.moving = table.place(key);
    }
    scene::RobotLoops loops;
    if (const auto of_loops = table.text_if("loops")) {
      const fs::path at = (fs::path(from).parent_path() / of_loops->value).lexically_normal();
      model_.files.push_back(at.string());
      loops = scene::read_robot_loops(read_text(at.string(), of_loops->place), at.string(), of_loops->place);
    }
    if (const toml::table* replaced = table.table("replace_joints"))
      scene::read_replacements(*replaced, context, loops.replacements);
    for (const auto& [name, replacement] : loops.replacements) {
      options.replaced[name] = replacement.place;
      if (replacement.type == "weld") options.welded.insert(name);
    }
    table.done();
    if (!inside) model_.files.push_back(path.string());
    const std::string text = inside ? file.value : read_text(path.string(), file.place);
    scene::Robot robot = scene::read_robot(text, path.string(), options, file.place);
    const int before = static_cast<int>(model_.bodies.size()), others = model_.multibodies;
    ++model_.robots;
    for (auto& [body, place] : robot.bodies) {
      if (body.family > 0) body.family = model_.robots;
      if (body.multibody > 0) model_.multibodies = std::max(model_.multibodies, body.multibody += others);
      add_body(std::move(body), place);
    }
    plan_joints(loops, robot, options.prefix, before);
    for (SceneFrame& frame : robot.frames) {
      if (frame.body != ground) frame.body.index += before;
      add_frame(std::move(frame), file.place);
    }
    const auto shift = [&](SceneConstraint& joint) {
      for (BodyId& id : joint.bodies)
        if (id != ground) id.index += before;
    };
    for (auto& [joint, place] : robot.joints) {
      shift(joint);
      robot_joints_.emplace_back(std::move(joint), place);
    }
    for (auto& [joint, place] : robot.compound_coordinates) {
      shift(joint);
      // The compound joint has the name of its last joint.
      const bool is_named = joint.name == joint.compound->name && joint.compound->is_constraint();
      if (!is_named) reserve_constraint(joint.name, place);
      model_.compound_coordinates.push_back(std::move(joint));
    }
    model_.native.insert(model_.native.end(), robot.native.begin(), robot.native.end());
    model_.warnings.insert(model_.warnings.end(), robot.warnings.begin(), robot.warnings.end());
    model_.notes.insert(model_.notes.end(), robot.notes.begin(), robot.notes.end());
    model_.files.insert(model_.files.end(), robot.files.begin(), robot.files.end());
  }

  // The joints that close the loops of a robot or replace joints of its file. @param before  bodies before the robot's
  void plan_joints(const scene::RobotLoops& loops, const scene::Robot& robot, const std::string& prefix, int before) {
    const auto in_scene = [&](BodyId id) { return id == ground ? id : BodyId{id.index + before}; };
    const auto name_of = [&](BodyId id) {
      return id == ground ? std::string("world") : model_.bodies[static_cast<std::size_t>(id.index) - 1].name;
    };
    for (const scene::ReplacedJoint& joint : robot.replaced) {
      const scene::JointReplacement& replacement = loops.replacements.find(joint.name)->second;
      if (replacement.type == "none") continue;
      const BodyId a = in_scene(joint.a), b = in_scene(joint.b);
      plans_.push_back(scene::plan_of(replacement, joint, prefix + joint.name, name_of(a), name_of(b), a, b));
    }
    for (const scene::RobotLoops::Loop& loop : loops.loops) {
      scene::JointPlan plan;
      plan.type = loop.type, plan.name = prefix + loop.name, plan.place = loop.place;
      const auto end = [&](const std::string& frame, std::string& body, std::optional<scene::NamedFrame>& into,
                           std::optional<Vector3d>& at) {
        const auto found = std::find_if(robot.frames.begin(), robot.frames.end(),
                                        [&](const SceneFrame& each) { return each.name == prefix + frame; });
        if (found == robot.frames.end()) {
          std::vector<std::string> known;
          for (const SceneFrame& each : robot.frames) known.push_back(each.name.substr(prefix.size()));
          fail(loop.place, "closed_loop: the robot has no link or joint with the frame \"" + frame + "\"" +
                               scene::suggestion(frame, known));
        }
        const BodyId of = in_scene(found->body);
        body = name_of(of);
        into = named(*found, of);
        at = found->in_body.p;
      };
      end(loop.frame_a, plan.a, plan.frame_a, plan.at_a);
      end(loop.frame_b, plan.b, plan.frame_b, plan.at_b);
      if (plan.a == plan.b) {
        model_.notes.push_back("the loop \"" + loop.name + "\" is left out, because its two frames are in one body");
        continue;
      }
      loop_plans_.push_back(std::move(plan));
    }
    if (!loops.motors.empty())
      model_.notes.push_back(
          {"joints that the file of loops names as motors move freely. [[actuator]] drives them", loops.motors});
  }

  void read_world(Table table) {
    if (table.has("gravity")) {
      model_.gravity = table.vector("gravity");
      model_.gravity_given = true;
    }
    model_.duration = table.positive("duration", model_.duration);
    dt_given_ = dt_given_ || table.has("dt");
    model_.dt = table.positive("dt", model_.dt);
    if (model_.dt > 1) table.refuse("dt", "the step is longer than 1 s, which is the limit");
    if (model_.duration / model_.dt > 1e8)
      table.refuse("duration", "the scene has more than 1e8 steps, which is the limit");
    host_given_ = host_given_ || table.has("host");
    model_.host = static_cast<Host>(table.word("host", host_names, static_cast<std::size_t>(model_.host)));
    model_.contacts = table.flag("contacts", model_.contacts);
    table.done();
  }

  void read_solver(Table solver) {
    StepOptions& o = model_.options;
    method_given_ = method_given_ || solver.has("method");
    o.method = static_cast<Method>(solver.word("method", method_names, static_cast<std::size_t>(o.method)));
    constexpr Method steppings[] = {Method::semi_implicit, Method::rk4, Method::adaptive};
    if (solver.has("stepping"))
      model_.stepping = steppings[solver.word("stepping", {"semi-implicit", "rk4", "adaptive"}, 0)];
    o.relative_tolerance = solver.positive("relative_tolerance", o.relative_tolerance);
    o.absolute_tolerance = solver.positive("absolute_tolerance", o.absolute_tolerance);
    o.drift =
        static_cast<Drift>(solver.word("drift", {"exact", "none", "baumgarte"}, static_cast<std::size_t>(o.drift)));
    if (solver.has("projection")) {
      const int n = solver.whole("projection", 0, 1000);
      if (n == 0 && o.drift == Drift::exact) o.drift = Drift::none;
      if (n > 0) o.max_newton = std::max(n, least_newton);
    }
    o.baumgarte_rate = solver.positive("baumgarte_rate", o.baumgarte_rate);
    o.newton_tolerance = solver.positive("newton_tolerance", o.newton_tolerance);
    o.max_tension_frequency = solver.positive("max_tension_frequency", o.max_tension_frequency);
    o.max_energy_gain = solver.positive("max_energy_gain", o.max_energy_gain);
    o.max_velocity_residual = solver.positive("max_velocity_residual", o.max_velocity_residual);
    o.max_substeps = solver.whole("max_substeps", 1, 65536, o.max_substeps);
    o.solve.rank_tolerance = solver.positive("rank_tolerance", o.solve.rank_tolerance);
    if (o.solve.rank_tolerance >= 1) solver.refuse("rank_tolerance", "rank_tolerance is below 1");
    o.solve.backend = static_cast<Backend>(
        solver.word("backend", {"auto", "dense", "sparse"}, static_cast<std::size_t>(o.solve.backend)));
    solver.done();
  }

  // Fewer Newton corrections than this cannot be asked for: they leave steps off the constraints, which are then redone
  // in halves at more cost than the correction.
  static constexpr int least_newton = 10;

  void read_parts(Table& from, Context& context) {
    for (const toml::table* table : from.tables("body")) read_body(Table(context, *table, "body"), context);
    for (const toml::table* table : from.tables("coordinate")) read_coordinate(Table(context, *table, "coordinate"));
    for (const toml::table* table : from.tables("frame")) frames_.emplace_back(table, context.inside());
    for (const auto& [key, what] : {std::pair{"joint", Later::What::joint},
                                    {"constraint", Later::What::constraint},
                                    {"force", Later::What::force}})
      for (const toml::table* table : from.tables(key)) later_.push_back({what, table, context.inside()});
  }

  void read_repeat(const toml::table& table, Context context, int depth) {
    Table repeat(context, table, "repeat");
    if (depth == 3) repeat.refuse("[[repeat]] tables are more than three deep in one another, which is the limit");
    const std::string index = repeat.has("index") ? repeat.text("index").value : "i";
    if (index.empty() || index.size() > 20 ||
        !std::all_of(index.begin(), index.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }) ||
        index == "t" || index == "pi")
      repeat.refuse("index", "an index is a word of letters, not t or pi");
    if (context.indices.count(index)) repeat.refuse("index \"" + index + "\" is taken by the repeat around this one");
    const int count = repeat.whole("count", 0, 100000), from = repeat.whole("from", -1000000, 1000000, 1);
    for (int k = 0; k < count; ++k) {
      if (++rounds_ > 2 * most_bodies)
        repeat.refuse("the scene has more than " + std::to_string(2 * most_bodies) +
                      " rounds of [[repeat]], which is the limit");
      context.indices[index] = from + k;
      context.names.constants[index] = static_cast<double>(from + k);
      read_parts(repeat, context);
      for (const toml::table* inner : repeat.tables("repeat")) read_repeat(*inner, context.inside(), depth + 1);
      limit(repeat);
    }
    if (count == 0)
      (void)repeat.tables("body"), (void)repeat.tables("coordinate"), (void)repeat.tables("joint"),
          (void)repeat.tables("constraint"), (void)repeat.tables("force"), (void)repeat.tables("frame"),
          (void)repeat.tables("repeat");
    repeat.done();
  }

  void limit(const Table& where) const {
    if (model_.bodies.size() > most_bodies || later_.size() > 4 * most_bodies)
      where.refuse("the scene has more than " + std::to_string(most_bodies) + " bodies, which is the limit");
  }

  void read_body(Table table, Context& context) {
    const Text name = table.text("name");
    table.rename("body \"" + name.value + "\"");
    SceneBody body = scene::read_body(table, context);
    body.name = name.value;
    doubt_inertia(body, table);
    table.done();
    if (!context.indices.empty() && body_at_.count(body.name))
      fail(name.place, "there are two bodies \"" + body.name + "\"; in a repeat write {" +
                           context.indices.begin()->first + "} in the name");
    add_body(std::move(body), name.place);
  }

  // Taken as it is: published problems have such bodies, and what follows from it is right. Said once for all rounds
  // of a repeat.
  void doubt_inertia(const SceneBody& body, const Table& table) {
    if (body.kind != BodyKind::rigid || body.inertia.isZero()) return;
    const std::string doubt = scene::doubt_of(body.inertia);
    const Place place = table.place("inertia");
    if (doubt.empty() || !doubted_.insert({place.source.get(), place.line, place.column}).second) return;
    model_.warnings.push_back(scene::warning(place, table.what() + ": " + doubt));
  }

  void read_coordinate(Table table) {
    const Text name = table.text("name");
    table.rename("coordinate \"" + name.value + "\"");
    if (coordinates_.size() == most_coordinates)
      fail(name.place,
           "the scene has more than " + std::to_string(most_coordinates) + " coordinates, which is the limit");
    if (name.value == "t" || name.value == "pi") fail(name.place, "\"" + name.value + "\" has a meaning already");
    SceneBody coordinate;
    coordinate.name = name.value;
    coordinate.kind = BodyKind::coordinate;
    coordinate.start.p.x() = table.number("start", 0.0);
    coordinate.start.v.x() = table.number("rate", 0.0);
    if (const auto unit = table.text_if("unit")) coordinate.unit = unit->value;
    table.done();
    if (coordinate.name.empty()) fail(name.place, "a coordinate needs a name");
    check_name(name.value, name.place);
    if (std::any_of(coordinates_.begin(), coordinates_.end(),
                    [&](const SceneBody& other) { return other.name == name.value; }))
      fail(name.place, "there are two coordinates \"" + name.value + "\"");
    if (coordinates_.empty()) first_coordinate_ = name.place;
    body_places_.emplace(coordinate.name, name.place);
    coordinates_.push_back(std::move(coordinate));
  }

  // The coordinates take their places behind the bodies, and get their kinetic energy and potential.
  void read_lagrangian() {
    const int n = static_cast<int>(coordinates_.size());
    if (n == 0 && !lagrangian_) return;
    if (n == 0)
      Table(*lagrangian_->context, *lagrangian_->table, "lagrangian")
          .refuse("needs coordinates, but the scene has no [[coordinate]]");
    if (!lagrangian_) fail(first_coordinate_, "coordinates need their kinetic energy: [lagrangian] kinetic = \"…\"");
    const int first = static_cast<int>(model_.bodies.size()) - n + 1;
    Context& context = *lagrangian_->context;
    const Lend lend(context.names, names_);
    no_parameter_of_a_body_name(context, context.names.constants.own());
    Table table(context, *lagrangian_->table, "lagrangian");
    const auto kept = context.names.constants;
    table.constants("params", context.names.constants);
    bool matrix = false;
    const bool constrained =
        std::any_of(later_.begin(), later_.end(), [](const Later& l) { return l.what == Later::What::constraint; });
    const auto tape = scene::read_kinetics(table, context, state_, first, n, constrained, matrix);
    model_.kinetics = [=] { return scene::make_kinetics(tape, first, n, matrix); };
    if (const auto potential = table.text_if("potential")) {
      model_.forces.push_back(
          scene::potential_force("potential", *potential, context, state_, "lagrangian, potential"));
      forces_.insert("potential");
    }
    table.done();
    context.names.constants = kept;
    // First order with a force of the start's rates in it gains or loses energy where M changes.
    if (!method_given_) model_.options.method = Method::rk4;
  }

  // Names are printed, and a terminal obeys some characters.
  static void check_name(const std::string& name, const Place& place) {
    if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
      fail(place, "a name has no line ends, tabs or control characters in it");
  }

  void add_body(SceneBody body, const Place& place) {
    if (body.name.empty()) fail(place, "a body needs a name");
    if (!body.imported) check_name(body.name, place);
    if (body.name == "world") fail(place, "\"world\" is the name of the world itself");
    if (!body_at_.emplace(body.name, static_cast<int>(model_.bodies.size()) + 1).second)
      fail(place, "there are two bodies \"" + body.name + "\"" + advice_on_prefix());
    body_places_.emplace(body.name, place);
    model_.bodies.push_back(std::move(body));
    if (model_.bodies.size() > most_bodies)
      fail(place, "the scene has more than " + std::to_string(most_bodies) + " bodies, which is the limit");
  }

  // With several robots, one of two equal names may be that of another robot.
  std::string advice_on_prefix() const {
    return model_.robots > 1 ? ". Write prefix = \"…\" in [model], which goes before all names of this robot" : "";
  }

  // A frame as expressions and joints take it. @param body  its body in the scene
  static scene::NamedFrame named(const SceneFrame& frame, BodyId body) {
    return {frame.name, body.index, frame.in_body.p, frame.in_body.q.toRotationMatrix()};
  }

  // A frame may have the name of a link's body, and no other.
  void add_frame(SceneFrame frame, const Place& place) {
    if (frame.name == "world") return;  // it is that of the scene, wherever the link of a robot is
    if (!frame_at_.emplace(frame.name, static_cast<int>(model_.frames.size())).second)
      fail(place, "there are two frames \"" + frame.name + "\"" + advice_on_prefix());
    names_.frames.push_back(named(frame, frame.body));
    model_.frames.push_back(std::move(frame));
  }

  // [[frame]]: in a body, or in another frame.
  // @param later  names of all [[frame]]
  void read_frame(Table table, Context& context, const scene::FindBody& body,
                  const std::set<std::string, std::less<>>& later) {
    const Text name = table.text("name");
    table.rename("frame \"" + name.value + "\"");
    if (name.value.empty()) fail(name.place, table.what() + ": a name is not empty");
    check_name(name.value, name.place);
    if (name.value == "world" || body_at_.count(name.value))
      fail(name.place, "\"" + name.value + "\" is both a body and a frame; rename one");
    if (table.has("body") == table.has("frame"))
      table.refuse("give body, from whose centre of mass its position is, or frame, one of the two");
    SceneFrame frame;
    frame.name = name.value;
    Pose outer;
    if (table.has("body")) {
      frame.body = scene::body_named(table.text("body"), body, context.names, table.what(), "frame");
      if (frame.body != ground &&
          model_.bodies[static_cast<std::size_t>(frame.body.index) - 1].kind == BodyKind::particle)
        table.refuse("body", "a particle has no axes, so it has no frames");
    } else {
      const Text of = table.text("frame");
      if (later.count(of.value) && !frame_at_.count(of.value))
        fail(of.place, table.what() + (of.value == name.value ? ": it is in itself. Give another frame or a body"
                                                              : ": the frame \"" + of.value +
                                                                    "\" stands below. Frames are read in order, "
                                                                    "from top to bottom, so put [[frame]] name = \"" +
                                                                    of.value + "\" above this one"));
      const scene::NamedFrame& in = scene::frame_named(of, context.names, table.what());
      frame.body = BodyId{in.body};
      outer = {in.p_BF, Quaterniond(Eigen::Quaterniond(in.R_BF))};
    }
    const Vector3d p = table.vector("position", Vector3d::Zero());
    const Quaterniond q = scene::read_rotation(table, context);
    frame.in_body = {outer.p + outer.q * p, (outer.q * q).normalized()};
    table.done();
    add_frame(std::move(frame), name.place);
  }

  // ---- generators ----

  // name1 … nameN in a row, each joined to the one before and the first to `anchor`.
  void read_chain(Table chain, Context& context) {
    const Text name = chain.text("name");
    chain.rename("chain \"" + name.value + "\"");
    const int count = chain.whole("count", 1, static_cast<int>(most_bodies));
    const Vector3d from = chain.vector("from", Vector3d::Zero()), step = chain.vector("step");
    if (step.isZero()) chain.refuse("step", "the step has length 0");
    const std::size_t joint = chain.word("joint", {"ball", "hinge", "rod", "universal"}, 0);
    const Vector3d axis = joint == 1 ? chain.vector("axis", Vector3d::UnitZ()) : Vector3d::UnitZ();
    const std::string anchor = chain.has("anchor") ? chain.text("anchor").value : "world";
    const bool open = chain.flag("free", false);
    const SceneBody pattern = scene::read_body(chain, context, false);
    doubt_inertia(pattern, chain);
    GeneratedLaws laws = laws_of_joints(chain, context);
    chain.done();
    const Place place = chain.place();
    for (int i = 1; i <= count; ++i) {
      SceneBody body = pattern;
      body.name = name.value + std::to_string(i);
      // A rod joins centres; other joints sit between them, half a step away.
      body.start.p = from + (joint == 2 ? i : i - 0.5) * step;
      if (body.kind == BodyKind::rigid)
        body.start.q = Quaterniond(Eigen::Quaterniond::FromTwoVectors(Vector3d::UnitY(), step)) * body.start.q;
      add_body(std::move(body), place);
    }
    for (int i = open ? 2 : 1; i <= count; ++i) {
      scene::JointPlan plan;
      plan.type = joint == 0 ? "ball" : joint == 1 ? "hinge" : joint == 2 ? "rod" : "universal";
      plan.name = name.value + ".joint" + std::to_string(i);
      plan.a = i == 1 ? anchor : name.value + std::to_string(i - 1);
      plan.b = name.value + std::to_string(i);
      if (joint != 2) plan.at = from + (i - 1.0) * step;
      plan.axis = axis;
      plan.place = place;
      plans_.push_back(std::move(plan));
    }
    keep(std::move(laws));
  }

  // Particles or bodies name_i_j(_k) on a lattice, joined to their neighbours.
  void read_grid(Table grid, Context& context) {
    const Text name = grid.text("name");
    grid.rename("grid \"" + name.value + "\"");
    const Vector3d counts = grid.vector("count");
    std::array<int, 3> n{};
    double all = 1;
    for (std::size_t k = 0; k < 3; ++k) {
      const double c = counts[static_cast<Eigen::Index>(k)];
      if (!(c >= 1 && c <= 1000) || c != std::floor(c)) grid.refuse("count", "three whole numbers from 1 to 1000");
      n[k] = static_cast<int>(c);
      all *= c;
    }
    if (all > static_cast<double>(most_bodies))
      grid.refuse("count", "the grid has more than " + std::to_string(most_bodies) + " bodies, which is the limit");
    const Vector3d from = grid.vector("from", Vector3d::Zero()), step = grid.vector("step");
    const std::size_t joint = grid.word("joint", {"rod", "ball", "none"}, 0);
    const SceneBody pattern = scene::read_body(grid, context, false);
    doubt_inertia(pattern, grid);
    GeneratedLaws laws = laws_of_joints(grid, context);
    grid.done();
    const Place place = grid.place();
    const auto label = [&](int i, int j, int k) {
      std::string out = name.value + std::to_string(i) + "_" + std::to_string(j);
      if (n[2] > 1) out += "_" + std::to_string(k);
      return out;
    };
    const auto where = [&](int i, int j, int k) -> Vector3d {
      return from + Vector3d((i - 1) * step.x(), (j - 1) * step.y(), (k - 1) * step.z());
    };
    for (int i = 1; i <= n[0]; ++i)
      for (int j = 1; j <= n[1]; ++j)
        for (int k = 1; k <= n[2]; ++k) {
          SceneBody body = pattern;
          body.name = label(i, j, k);
          body.start.p = where(i, j, k);
          add_body(std::move(body), place);
        }
    if (joint == 2) return keep(std::move(laws));
    for (int i = 1; i <= n[0]; ++i)
      for (int j = 1; j <= n[1]; ++j)
        for (int k = 1; k <= n[2]; ++k)
          for (int d = 0; d < 3; ++d) {
            const int i2 = i + (d == 0), j2 = j + (d == 1), k2 = k + (d == 2);
            if (i2 > n[0] || j2 > n[1] || k2 > n[2]) continue;
            scene::JointPlan plan;
            plan.type = joint == 0 ? "rod" : "ball";
            plan.a = label(i, j, k);
            plan.b = label(i2, j2, k2);
            plan.name = plan.a + "-" + plan.b;
            if (joint != 0) plan.at = 0.5 * (where(i, j, k) + where(i2, j2, k2));
            plan.place = place;
            plans_.push_back(std::move(plan));
          }
    keep(std::move(laws));
  }

  /// The laws that a chain or a grid gives to each of its joints.
  struct GeneratedLaws {
    const toml::table* table = nullptr;  ///< null: there are none
    Context* context = nullptr;
    std::string what;            ///< "chain \"link\""
    std::size_t first, end = 0;  ///< places of its joints among plans_
  };
  GeneratedLaws laws_of_joints(Table& table, Context& context) {
    return {table.find("law") ? &table.node() : nullptr, &context, table.what(), plans_.size()};
  }
  /// Call it once the joints are among plans_.
  void keep(GeneratedLaws laws) {
    if (!laws.table) return;
    laws.end = plans_.size();
    if (laws.first == laws.end)
      Table(*laws.context, *laws.table, laws.what).refuse("law", "there is no joint for a law");
    generated_laws_.push_back(std::move(laws));
  }

  // ---- second pass ----

  struct Lend {
    Lend(scene::Names& to, scene::Names& from) : to_(to), from_(from) { swap(); }
    ~Lend() { swap(); }
    Lend(const Lend&) = delete;
    Lend& operator=(const Lend&) = delete;
    void swap() {
      to_.bodies.swap(from_.bodies);
      to_.kinds.swap(from_.kinds);
      to_.frames.swap(from_.frames);
      to_.sensors.swap(from_.sensors);
    }
    scene::Names &to_, &from_;
  };

  void related() {
    names_.bodies = {"world"};
    names_.kinds = {BodyKind::fixed};
    for (const SceneBody& coordinate : coordinates_) {
      model_.bodies.push_back(coordinate);
      if (!body_at_.emplace(coordinate.name, static_cast<int>(model_.bodies.size())).second)
        fail(first_coordinate_, "\"" + coordinate.name + "\" is both a body and a coordinate; rename one");
    }
    for (const SceneBody& body : model_.bodies) {
      names_.bodies.push_back(body.name);
      names_.kinds.push_back(body.kind);
    }
    for (const auto& [table, context] : sensors_)  // as read_sensor() reads it, which reports what is wrong
      if (const auto* name = (*table)["name"].as_string()) names_.sensors.push_back(name->get());
    state_.bodies.emplace_back();
    for (const SceneBody& body : model_.bodies) state_.bodies.push_back(body.motion ? body.motion(0) : body.start);
    const auto body = [&](const std::string& name) {
      if (name == "world") return 0;
      const auto found = body_at_.find(name);
      return found == body_at_.end() ? -1 : found->second;
    };
    std::set<std::string, std::less<>> later;
    for (auto& [table, context] : frames_)
      if (Table each(context, *table, "frame"); each.has("name")) later.insert(each.text("name").value);
    for (auto& [table, context] : frames_) {
      // A frame may be in one of those before it, so that its names are not lent.
      context.names.bodies = names_.bodies, context.names.kinds = names_.kinds, context.names.frames = names_.frames;
      read_frame(Table(context, *table, "frame"), context, body, later);
    }
    for (const auto& [context, texts] : definitions_) {
      const Lend lend(context->names, names_);
      check_definitions(*context, texts, true);
    }
    read_lagrangian();
    const std::size_t first_plan = model_.constraints.size();
    for (const scene::JointPlan& plan : plans_) add(scene::make_joint(plan, names_, body, state_), plan.place);
    for (const GeneratedLaws& laws : generated_laws_) {
      const Lend lend(laws.context->names, names_);
      Table table(*laws.context, *laws.table, laws.what);
      for (std::size_t i = laws.first; i < laws.end; ++i)
        add_laws(table, *laws.context, model_.constraints[first_plan + i]);
    }
    for (auto& [joint, place] : robot_joints_) add(std::move(joint), place);
    // After those of the file, which are the trees.
    for (const scene::JointPlan& plan : loop_plans_) add(scene::make_joint(plan, names_, body, state_), plan.place);
    const scene::Constants::Map* looked_at = nullptr;
    for (Later& each : later_) {
      // What stood around it: constants; and all bodies, which only now are known. Lent, not copied: there may be many.
      Context& context = each.context;
      const Lend lend(context.names, names_);
      const auto* around = context.names.constants.outer();
      if (around != looked_at) no_parameter_of_a_body_name(context, *around);
      looked_at = around;
      no_parameter_of_a_body_name(context, context.names.constants.own());
      static const char* const kinds[] = {"joint", "constraint", "force"};
      Table table(context, *each.table, kinds[static_cast<int>(each.what)]);
      const Text name = table.text("name");
      table.rename(table.what() + " \"" + name.value + "\"");
      if (name.value.empty()) fail(name.place, table.what() + ": a name is not empty");
      check_name(name.value, name.place);
      table.constants("params", context.names.constants);
      if (const auto texts = table.definitions("definitions", context.names); !texts.empty())
        check_definitions(context, texts, false);
      if (each.what == Later::What::force) {
        SceneForce force = scene::read_force(table, context, body, state_);
        force.name = name.value;
        table.done();
        if (!forces_.insert(name.value).second) fail(name.place, "there are two forces \"" + name.value + "\"");
        model_.forces.push_back(std::move(force));
        continue;
      }
      SceneConstraint constraint;
      if (each.what == Later::What::joint) {
        scene::JointPlan plan = scene::read_joint(table, context);
        plan.name = name.value;
        plan.place = name.place;
        constraint = scene::make_joint(plan, context.names, body, state_);
      } else {
        constraint = scene::read_constraint(table, context, state_);
        constraint.name = name.value;
      }
      constraint.unilateral = scene::read_unilateral(table, context, constraint);
      constraint.compliance = scene::read_compliance(table, context, constraint, state_);
      add_laws(table, context, constraint);
      if (constraint.compliance && (constraint.unilateral || !constraint.laws.empty()))
        table.refuse("compliance",
                     "a constraint with compliance has no law and is not unilateral; write a second "
                     "constraint for that");
      if (const toml::node* law = table.find("law"); law && scene::is_typed(*law))
        typed_laws_.emplace(name.value, scene::place_of(context, *law));
      table.done();
      add(std::move(constraint), name.place);
    }
    later_.clear();
    plans_.clear(), loop_plans_.clear();
    assemble();
    keep_rates();
    for (const auto& [table, context] : attached_) {
      const Lend lend(context->names, names_);
      attach(Table(*context, *table, "attach"), *context);
    }
    read_actuators();
    if (model_.bodies.empty()) fail({outermost_->source, 0, 0}, "holds no body: write [[body]], or [[coordinate]]");
    for (const auto& [table, context] : starts_) {
      const Lend lend(context->names, names_);
      read_start(Table(*context, *table, "start"), *context);
    }
    no_definition_of_a_constraint_name();
    no_name_of_two_kinds();
    check_coefficients();
    check_whole();
  }

  // Closes the loops of robots that are open in the poses of their files. A small gap stays: hosts close it.
  void assemble() {
    const bool coordinates = std::any_of(model_.bodies.begin(), model_.bodies.end(),
                                         [](const SceneBody& b) { return b.kind == BodyKind::coordinate; });
    if (model_.robots == 0 || coordinates) return;
    scene::LoopAssembly found = scene::assemble_loops(model_, given_positions_);
    if (found.outcome == scene::LoopAssembly::Outcome::closed_already) return;
    const auto shown = [](double x) {
      char text[32];
      std::snprintf(text, sizeof text, "%.3g", x);
      return std::string(text);
    };
    const std::string open =
        "joints that close loops are open in the pose of the file, by up to " + shown(found.gap_at_start) + " m or rad";
    if (found.outcome == scene::LoopAssembly::Outcome::not_closable) {
      const std::string least =
          open + ", and no pose within the limits of the joints was found that closes them. The " + "least gap was " +
          shown(found.gap) + " m or rad at \"" + found.worst + "\". The robot starts in the pose of the file. ";
      if (found.beyond_limits.empty())
        model_.notes.push_back({least + "Check the frames of", std::move(found.opened)});
      else
        model_.notes.push_back({least + "They close only beyond the limits of", std::move(found.beyond_limits)});
      return;
    }
    model_.notes.push_back(
        {open + ". The robot starts in the pose near it that closes them. Open were", std::move(found.opened)});
    if (!found.moved.empty())
      model_.notes.push_back(
          {"positions of joints that the scene gives do not close the loops, so these joints start elsewhere",
           std::move(found.moved)});
    for (std::size_t i = 0; i < model_.bodies.size(); ++i) {
      SceneBody& body = model_.bodies[i];
      if (body.kind != BodyKind::rigid && body.kind != BodyKind::particle) continue;
      body.start = state_.bodies[i + 1] = found.state.bodies[i + 1];
    }
    for (std::size_t i = 0; i < model_.constraints.size(); ++i)
      if (scene::has_coordinate(model_.constraints[i])) model_.constraints[i].start = found.positions[i];
    for (SceneConstraint& c : model_.compound_coordinates) {
      const scene::JointCoordinate of = scene::coordinate_of(c, state_);
      c.start = scene::coordinate_row(of, state_[c.bodies[0]], state_[c.bodies[1]], of.start_values()).value;
    }
    for (SceneConstraint& c : model_.constraints)
      if (c.mimic) couple_again(c);
  }

  // Makes the coupling of a mimic with the whole turns of its joints at the assembled start.
  void couple_again(SceneConstraint& c) const {
    const auto of = [&](const std::string& name) -> std::optional<scene::JointCoordinate> {
      for (const SceneConstraint& joint : model_.constraints) {
        if (joint.name != name || !scene::has_coordinate(joint)) continue;
        scene::JointCoordinate out = scene::coordinate_of(joint, state_);
        for (int* body : {&out.parent, &out.child}) {
          const auto at = std::find(c.bodies.begin(), c.bodies.end(), BodyId{*body});
          if (at == c.bodies.end()) return {};
          *body = static_cast<int>(at - c.bodies.begin());
        }
        return out;
      }
      return {};
    };
    const auto follower = of(c.mimic->follower), leader = of(c.mimic->leader);
    if (!follower || !leader) return;
    c.make = [name = c.name, leader = *leader, follower = *follower, m = c.mimic->multiplier,
              o = c.mimic->offset + follower->zero - c.mimic->multiplier * leader->zero](
                 const std::vector<BodyId>& id) { return scene::couple(name, id, leader, follower, m, o); };
  }

  // Robots with loops: velocities that the loops permit, with the rates that the scene gives.
  void keep_rates() {
    std::vector<const SceneConstraint*> joints;
    std::vector<double> rates;
    for (const SceneConstraint* c : scene::joints_with_coordinate(std::as_const(model_))) {
      const auto given = given_rates_.find(c->name);
      if (given == given_rates_.end()) continue;
      joints.push_back(c), rates.push_back(given->second.first);
    }
    if (joints.empty()) return;
    scene::RateAssembly found;
    try {
      found = scene::assemble_rates(model_, joints, rates);
    } catch (const std::invalid_argument&) {
      return;  // check_whole() reports it.
    }
    if (found.outcome == scene::RateAssembly::Outcome::met_already) return;
    if (found.outcome == scene::RateAssembly::Outcome::not_met) {
      std::vector<std::string> values;
      for (std::size_t k = 0; k < joints.size(); ++k) {
        const SceneConstraint& c = *joints[k];
        char text[96];
        const char* unit = c.type == "slider" ? "m/s" : "rad/s";
        std::snprintf(text, sizeof text, " (%.6g %s in the scene, %.6g %s at the start)", rates[k], unit,
                      found.rates[k], unit);
        values.push_back(c.name + text);
      }
      model_.notes.push_back(
          {"the loops of the robot do not permit the rates that the scene gives together. The robot "
           "starts with the nearest velocities",
           std::move(values), "Give rates of as many joints as the loops leave free"});
      return;
    }
    for (std::size_t i = 0; i < model_.bodies.size(); ++i) {
      BodyState& now = state_.bodies[i + 1];
      if (!model_.bodies[i].motion) now.v = model_.bodies[i].start.v, now.w = model_.bodies[i].start.w;
    }
    for (SceneConstraint* c : scene::joints_with_coordinate(model_)) {
      const scene::JointCoordinate of = scene::coordinate_of(*c, state_);
      c->rate = scene::coordinate_row(of, state_[c->bodies[0]], state_[c->bodies[1]], of.start_values()).rate;
    }
  }

  // Compiles the last definitions of a context, whose texts these are. @param of_file  those that read forces wait for
  // asked(); no part of a scene can use them
  void check_definitions(const Context& context, const std::vector<Text>& texts, bool of_file) {
    std::vector<const scene::Definition*> own(texts.size());
    const scene::Definition* last = context.names.definitions.get();
    for (auto to = own.rbegin(); to != own.rend(); ++to, last = last->before.get()) *to = last;
    for (std::size_t i = 0; i < own.size(); ++i) {
      const scene::Definition* const d = own[i];
      const Text* const text = &texts[i];
      const std::string what = "definition \"" + d->name + "\"";
      if (body_at_.count(d->name)) fail(text->place, "\"" + d->name + "\" is both a body and a definition; rename one");
      if (frame_at_.count(d->name))
        fail(text->place, "\"" + d->name + "\" is both a frame and a definition; rename one");
      definition_places_.emplace_back(d->name, text->place);
      scene::Names names;
      names.bodies = context.names.bodies;
      names.kinds = context.names.kinds;
      names.frames = context.names.frames;
      names.sensors = context.names.sensors;
      names.definitions = d->before;
      names.constraints_known = false;
      scene::offer_observables(names);
      try {
        scene::Compiler(names, *d->constants).expression(text->value);
      } catch (const ReadsForces& fault) {
        if (!of_file)
          text->fail(Fault(fault.at, std::string(fault.what()) + ", which only logs and expectations read"), what);
        reading_forces_.push_back({d, *text, what});
      } catch (const Fault& fault) {
        text->fail(of_order(fault, own, i), what);
      }
    }
  }

  // The fault of a definition that uses itself or one that stands below it in its table.
  static Fault of_order(const Fault& fault, const std::vector<const scene::Definition*>& table, std::size_t i) {
    for (std::size_t k = i; k < table.size(); ++k) {
      const std::string& name = table[k]->name;
      if (!std::string_view(fault.what()).starts_with("unknown name '" + name + "'")) continue;
      if (k == i) return {fault.at, "\"" + name + "\" uses itself"};
      std::set<std::string, std::less<>> used;
      if (reaches(table, k, table[i]->name, used))
        return {fault.at, "\"" + table[i]->name + "\" and \"" + name + "\" use each other"};
      return {fault.at,
              "\"" + name + "\" stands below: definitions are read in order, from top to bottom, so put it above"};
    }
    return fault;
  }
  // Whether the definition of a table uses another one of it, by its text or by those that it uses.
  static bool reaches(const std::vector<const scene::Definition*>& table, std::size_t from, const std::string& to,
                      std::set<std::string, std::less<>>& seen) {
    for (const std::string_view word : scene::identifiers_of(table[from]->text)) {
      if (word == to) return true;
      for (std::size_t k = 0; k < table.size(); ++k)
        if (table[k]->name == word && seen.insert(std::string(word)).second && reaches(table, k, to, seen)) return true;
    }
    return false;
  }

  // Constraints are known when all of the scene has been related.
  void no_definition_of_a_constraint_name() const {
    for (const auto& [name, place] : definition_places_)
      if (constraints_.count(name))
        fail(place, "\"" + name + "\" is both a joint or constraint and a definition; rename one");
  }

  // A joint or constraint by name. @throws SceneError with the nearest name.
  SceneConstraint& constraint_named(const Text& name, const std::string& who) {
    std::vector<std::string> known;
    for (SceneConstraint& c : model_.constraints) {
      if (c.name == name.value) return c;
      known.push_back(c.name);
    }
    for (const SceneConstraint& c : model_.compound_coordinates)
      if (c.name == name.value && c.compound->is_constraint())
        fail(name.place, who + ": \"" + c.name +
                             "\" is a joint inside a compound joint, so it has no force of its own. " +
                             "Use the compound joint \"" + c.compound->name + "\"");
    fail(name.place, who + ": there is no joint or constraint \"" + name.value + "\"" +
                         scene::suggestion_or_all(name.value, known));
  }

  // A pattern "link.joint*" names all joints and constraints whose names begin with "link.joint".
  std::vector<SceneConstraint*> constraints_named(const Text& name, const std::string& who) {
    if (!name.value.ends_with('*')) return {&constraint_named(name, who)};
    const std::string_view start = std::string_view(name.value).substr(0, name.value.size() - 1);
    std::vector<SceneConstraint*> out;
    for (SceneConstraint& c : model_.constraints)
      if (c.name.starts_with(start)) out.push_back(&c);
    if (!out.empty()) return out;
    std::vector<std::string> known;
    for (const SceneConstraint& c : model_.constraints) known.push_back(c.name);
    fail(name.place, who + ": no joint or constraint has a name that begins with \"" + std::string(start) + "\"" +
                         scene::suggestion_or_all(std::string(start), known));
  }

  // Forces and prescribed motions of joints, which may be written elsewhere.
  void read_actuators() {
    const std::vector<SceneConstraint> joints =
        actuators_.empty() ? std::vector<SceneConstraint>() : model_.constraints;
    const scene::DrivableJoints drivable{joints, model_.compound_coordinates, state_};
    for (const auto& [table, of_file] : actuators_) {
      Context context = of_file->inside();
      const Lend lend(context.names, names_);
      scene::offer_joints(context.names, drivable);
      Table one(context, *table, "actuator");
      scene::Actuator actuator = scene::read_actuator(one, context, drivable);
      const Place place = one.place(one.has("name") ? "name" : "joint");
      one.done();
      if (actuator.constraint) {
        check_name(actuator.constraint->name, place);
        add(std::move(*actuator.constraint), place);
        continue;
      }
      check_name(actuator.force->name, place);
      if (!forces_.insert(actuator.force->name).second)
        fail(place, "there are two forces \"" + actuator.force->name + "\". Give the actuator another name");
      model_.forces.push_back(std::move(*actuator.force));
    }
  }

  // Laws of a joint that is written elsewhere: in a robot's file, by a generator.
  void attach(Table table, Context& context) {
    const std::vector<SceneConstraint*> joints = constraints_named(table.text("to"), table.what());
    for (SceneConstraint* to : joints) {
      const std::size_t before = to->laws.size();
      add_laws(table, context, *to);
      if (to->laws.size() == before)
        table.refuse("there is no law to attach. Write law = { type = \"coulomb\", mu = 0.3 } or the like");
    }
    table.done();
  }

  void add_laws(Table& table, Context& context, SceneConstraint& to) {
    std::vector<scene::CoefficientText> texts;
    const std::vector<Law> laws = scene::read_laws(table, context, to.bodies, texts);
    to.laws.insert(to.laws.end(), laws.begin(), laws.end());
    for (scene::CoefficientText& each : texts) {
      to.coefficients.push_back(each.values);
      coefficient_texts_.emplace_back(to.name, std::move(each));
    }
  }

  // Numbers have been compared when they were read; expressions are compared at the start, once it is known.
  void check_coefficients() const {
    for (const auto& [name, each] : coefficient_texts_) {
      const auto c = std::find_if(model_.constraints.begin(), model_.constraints.end(),
                                  [&, of = name](const SceneConstraint& one) { return one.name == of; });
      SceneConstraint alone;
      alone.bodies = c->bodies;
      alone.coefficients = {each.values};
      const auto found = kinetic_above_static(alone, state_);
      if (!found) continue;
      char text[160];
      std::snprintf(text, sizeof text,
                    "mu_kinetic (%.6g) exceeds mu (%.6g) at the start. Sliding friction cannot exceed static friction",
                    found->mu_kinetic, found->mu);
      each.text.fail(Fault(0, text), each.what);
    }
  }

  // Of each row of the equations, where one side of it is a quantity of its own: "rad/s" of arm.omega.z = 3.
  std::vector<std::string> units_of_rows(const std::vector<Text>& equations, const scene::Names& names) const {
    std::vector<std::string> out;
    for (const Text& text : equations) {
      std::string unit;
      int rows = 1;
      const std::size_t equals = text.value.find('=');
      for (const std::string& side : {text.value.substr(0, equals), text.value.substr(equals + 1)}) {
        scene::Compiler compiler(names);
        rows = compiler.expression(side) == scene::Type::scalar ? 1 : 3;
        if (unit.empty()) unit = scene::unit_of(compiler.finish(), model_);
      }
      out.insert(out.end(), static_cast<std::size_t>(rows), unit);
    }
    return out;
  }

  // Velocities of the mechanism from one rate, or some.
  void read_start(Table table, Context& context) {
    scene::Compiler compiler(context.names);
    const std::vector<Text> texts = table.texts("velocity");
    for (const Text& text : texts) try {
        compiler.equation(text.value);
      } catch (const Fault& fault) {
        text.fail(fault, table.what() + ", velocity");
      }
    table.done();
    const auto tape = std::make_shared<const scene::Tape>(compiler.finish());
    if (!tape->uses_motion)
      texts.front().fail(Fault(0, "no velocity occurs in it; a place is given by position and rotation"), table.what());
    std::optional<scene::StartFailure> failure;
    try {
      failure = scene::assemble_velocities(model_, tape, units_of_rows(texts, context.names));
    } catch (const std::invalid_argument& e) {
      failure = scene::StartFailure{e.what()};
    }
    if (failure) {
      std::size_t which = 0;  // text of the row
      for (int row = 0; which + 1 < texts.size(); ++which)
        if ((row += tape->results[which].type == scene::Type::scalar ? 1 : 3) > failure->row) break;
      texts[which].fail(Fault(0, failure->why), table.what() + ", velocity");
    }
    for (std::size_t i = 0; i < model_.bodies.size(); ++i) {
      BodyState& now = state_.bodies[i + 1];
      if (!model_.bodies[i].motion) now.v = model_.bodies[i].start.v, now.w = model_.bodies[i].start.w;
    }
  }

  void read_sensor(Table table) {
    scene::Sensor sensor;
    const Text name = table.text("name"), joint = table.text("joint");
    table.rename("sensor \"" + name.value + "\"");
    if (name.value.empty()) fail(name.place, table.what() + ": a name is not empty");
    check_name(name.value, name.place);
    sensor.name = name.value;
    if (scene::quoted(name.value) != name.value)
      fail(name.place, "a sensor's name is written in expressions, so it is letters, digits and _ only, got \"" +
                           name.value + "\"");
    if (std::any_of(sensing_->begin(), sensing_->end(), [&](const scene::Sensor& s) { return s.name == name.value; }))
      fail(name.place, "there are two sensors \"" + name.value + "\"");
    const SceneConstraint& at = constraint_named(joint, table.what());
    if (at.bodies.size() != 2) fail(joint.place, table.what() + ": \"" + joint.value + "\" is not between two bodies");
    sensor.joint = joint.value;
    sensor.on = table.word("on", {"parent", "child"}, 1) == 0 ? 0 : 1;
    read_sensor_frame(table, at, sensor);
    table.done();
    sensing_->push_back(std::move(sensor));
  }

  void read_sensor_frame(Table& table, const SceneConstraint& at, scene::Sensor& sensor) {
    static const std::vector<std::string> words = {"joint", "parent", "child", "world"};
    if (table.has("frame")) {
      const std::string name = table.text("frame").value;
      const auto named = frame_at_.find(name);
      if (named != frame_at_.end() && std::find(words.begin(), words.end(), name) == words.end()) {
        const SceneFrame& frame = model_.frames[static_cast<std::size_t>(named->second)];
        sensor.frame = frame.body, sensor.axes = frame.in_body.q, sensor.origin = frame.in_body.p;
        return;
      }
    }
    const std::size_t frame = table.word("frame", words, 0);
    if (frame != 3) sensor.frame = at.bodies[frame == 1 ? 0 : 1];
    if (frame == 0) sensor.axes = at.own_axes ? *at.own_axes : Quaterniond(Eigen::Quaterniond(at.frame_b.axes));
    if ((frame == 1 || frame == 2) && sensor.frame != ground)
      sensor.axes = model_.bodies[static_cast<std::size_t>(sensor.frame.index) - 1].link_axes;
  }

  void no_parameter_of_a_body_name(const Context& context, const scene::Constants::Map& constants) const {
    for (const auto& [name, value] : constants) {
      const bool body = body_at_.count(name) > 0;
      if (!body && !frame_at_.count(name)) continue;
      const auto at = params_.find({context.source.get(), name});
      fail(at == params_.end() ? Place{context.source, 0, 0} : at->second,
           "\"" + name + "\" is both a " + (body ? "body" : "frame") + " and a parameter; rename one");
    }
  }

  // Also where only logs and expectations read them. Those of included files have none.
  void no_name_of_two_kinds() const {
    for (const auto& [key, place] : params_) {
      const bool body = body_at_.count(key.second) > 0;
      if (key.first == outermost_->source.get() && (body || frame_at_.count(key.second)))
        fail(place, "\"" + key.second + "\" is both a " + (body ? "body" : "frame") + " and a parameter; rename one");
    }
    for (const SceneFrame& frame : model_.frames) {
      const auto body = body_at_.find(frame.name);
      if (body != body_at_.end() && body->second != frame.body.index)
        fail(body_places_.at(frame.name), "\"" + frame.name +
                                              "\" is a body, and a frame in another one. Rename the body, or write "
                                              "prefix in [model], which changes the names of a robot");
    }
  }

  void reserve_constraint(const std::string& name, const Place& place) {
    if (!constraints_.emplace(name, place).second)
      fail(place, "there are two joints or constraints \"" + name + "\"" + advice_on_prefix());
  }

  void add(SceneConstraint constraint, const Place& place) {
    reserve_constraint(constraint.name, place);
    const bool movable = std::any_of(constraint.bodies.begin(), constraint.bodies.end(), [&](BodyId id) {
      if (id == ground) return false;
      const BodyKind kind = model_.bodies[static_cast<std::size_t>(id.index) - 1].kind;
      return kind != BodyKind::fixed && kind != BodyKind::kinematic;
    });
    if (!movable) fail(place, "\"" + constraint.name + "\": none of its bodies can move");
    model_.constraints.push_back(std::move(constraint));
  }

  // What only the whole can say: that the core takes it.
  void check_whole() {
    try {
      const System system = model_.system();
      if (typed_laws_.empty()) return;
      // A typed law that is no number where it starts: nobody else knows its line.
      Dynamics dynamics(system, model_.options.solve);
      if (dynamics.evaluate(system.initial_state()) != Status::invalid) return;
      for (const auto& [name, at] : typed_laws_)
        if (dynamics.reason().find("law on " + name + " returned") != std::string::npos)
          fail(at, "constraint \"" + name +
                       "\", law: the force is not finite at the start; at rest "
                       "slip_velocity/norm(slip_velocity) is 0/0, and "
                       "slip_direction is [0, 0, 0]");
    } catch (const SceneError&) {
      throw;
    } catch (const std::invalid_argument& e) {
      Place place{outermost_->source, 0, 0};
      for (const auto& [name, at] : constraints_)
        if (std::string(e.what()).find("'" + name + "'") != std::string::npos) place = at;
      fail(place, e.what());
    }
  }

  // ---- third pass ----

  void asked() {
    Context& context = *outermost_;
    context.names.bodies = names_.bodies;
    context.names.kinds = names_.kinds;
    context.names.frames = names_.frames;
    for (const SceneConstraint& c : model_.constraints) {
      context.names.add_constraint(c, c.make(c.bodies).function().rows());
      context.names.constraint_modes.push_back(modes_of(c));
    }
    for (const SceneConstraint& c : model_.compound_coordinates) context.names.add_joint_in_compound(c);
    for (const SceneConstraint* c : scene::joints_with_coordinate(std::as_const(model_)))
      joint_coordinates_->emplace(c->name, scene::driven_coordinate_of(*c, state_, model_.constraints, model_.forces));
    for (const SceneForce& force : model_.forces) {
      context.names.forces.push_back(force.name);
      context.names.force_bodies.emplace_back();
      for (const BodyId id : force.bodies) context.names.force_bodies.back().push_back(id.index);
    }
    scene::offer_observables(context.names);
    for (const auto& [table, where] : sensors_) read_sensor(Table(*where, *table, "sensor"));
    for (const scene::Sensor& sensor : *sensing_)
      for (const char* part : {"_force", "_torque"})
        context.names.inputs.push_back({sensor.name + part, scene::Type::vector, {}});
    for (const ReadingForces& each : reading_forces_) {
      scene::Names names = context.names;
      names.definitions = each.definition->before;
      try {
        scene::Compiler(names, *each.definition->constants).expression(each.text.value);
      } catch (const Fault& fault) {
        each.text.fail(fault, each.what);
      }
    }
    for (const scene::Sensor& sensor : *sensing_)
      for (const char* part : {"_force", "_torque"}) {
        const std::string text = sensor.name + part;
        model_.logs.push_back(
            make_channel({text, {std::make_shared<const scene::Source>("sensor", text), 1, 0}, false}, "sensor"));
      }
    for (const toml::table* each : logs_) {
      Table table(context, *each, "log");
      const std::string name = name_of_channel(table, named_logs_);
      Channel channel = make_channel(table.text("channel"), table.what());
      channel.name_ = name;
      if (const auto unit = table.text_if("unit")) channel.unit_ = unit->value;
      if (channel.has_name()) no_column_of_the_state(channel, table.text("name").place);
      table.done();
      model_.logs.push_back(std::move(channel));
    }
    for (const std::string& log : overrides_.logs)  // not in the file: the caret stands under the text itself
      model_.logs.push_back(
          make_channel({log, {std::make_shared<const scene::Source>("column", log), 1, 0}, false}, "column"));
    for (const toml::table* each : expectations_) {
      Table table(context, *each, "expect");
      read_expectation(table);
    }
  }

  // Which changes of mode there may be.
  static scene::Names::Modes modes_of(const SceneConstraint& c) {
    scene::Names::Modes out;
    out.unilateral = c.unilateral.has_value();
    out.reengage = c.unilateral && c.unilateral->reengage;
    out.friction = std::any_of(c.laws.begin(), c.laws.end(), [](const Law& law) {
      const auto terms = law.terms();
      return std::any_of(terms.begin(), terms.end(),
                         [](const Law::Term& term) { return static_cast<bool>(term.static_limit); });
    });
    return out;
  }

  Channel make_channel(const Text& text, const std::string& what) {
    scene::Compiler compiler(outermost_->names);
    try {
      compiler.expression(text.value);
    } catch (const Fault& fault) {
      text.fail(fault, what);
    }
    Channel channel;
    channel.text_ = text.value;
    channel.impl_ = std::make_unique<Channel::Impl>(std::make_shared<const scene::Tape>(compiler.finish()), sensing_,
                                                    joint_coordinates_);
    if (channel.impl_->accelerations && model_.contacts)
      text.fail(
          Fault(0,
                "accelerations cannot be used with contacts = true, because linchpin does not know the contact forces"),
          what);
    if (channel.impl_->accelerations && !model_.mjcf_file.empty())
      text.fail(
          Fault(0,
                "accelerations cannot be used with an MJCF file, because linchpin does not know all forces of MuJoCo"),
          what);
    channel.unit_ = scene::unit_of(channel.impl_->evaluate.tape(), model_);
    return channel;
  }

  // A named log has columns of its own beside those of the states, gaps and forces.
  void no_column_of_the_state(const Channel& log, const Place& place) const {
    std::vector<std::string> own = {log.title()};
    if (log.size() == 3) own = {log.title() + ".x", log.title() + ".y", log.title() + ".z"};
    const auto refuse_if = [&](const std::string& column, const std::string& whose, const Place& other) {
      const std::string plain = column.substr(0, column.find(" ["));
      for (const std::string& each : own) {
        if (each != plain && each != column) continue;
        const std::string at = other.line == 0
                                   ? ""
                                   : " (" + (other.source == place.source ? "line " : other.source->path + ":") +
                                         std::to_string(other.line) + ")";
        fail(place, "log \"" + log.title() + "\": \"" + plain + "\" is a column of " + whose + at +
                        " already; rename the log");
      }
    };
    refuse_if("t [s]", "the time", {});
    for (const SceneBody& body : model_.bodies) {
      const bool coordinate = body.kind == BodyKind::coordinate;
      const auto found = body_places_.find(body.name);
      const Place at = found == body_places_.end() ? Place{} : found->second;
      const std::string whose = (coordinate ? "the coordinate \"" : "the body \"") + body.name + "\"";
      if (coordinate)
        for (const char* part : {"", "'"}) refuse_if(body.name + part, whose, at);
      else
        for (const char* part : body_columns) refuse_if(body.name + part, whose, at);
    }
    for (const SceneConstraint& c : model_.constraints) {
      const auto found = constraints_.find(c.name);
      const Place at = found == constraints_.end() ? Place{} : found->second;
      const std::string whose = "\"" + c.name + "\"";
      refuse_if(c.name + gap_column(RowUnit::custom), whose, at);
      for (const char* part : force_columns) refuse_if(c.name + part, whose, at);
      for (const BodyId id : c.bodies)
        if (id != ground) refuse_if(c.name + " on " + names_.bodies[static_cast<std::size_t>(id.index)], whose, at);
    }
  }

  // The title of a log or an expectation, empty without one. Two of one kind have different titles.
  std::string name_of_channel(Table& table, std::set<std::string>& taken) {
    const auto name = table.text_if("name");
    if (!name) return {};
    const std::string kind = table.what();
    table.rename(kind + " \"" + name->value + "\"");
    if (name->value.empty())
      fail(name->place, kind + ": a name is not empty; without a name the expression is the title");
    check_name(name->value, name->place);
    if (!taken.insert(name->value).second)
      fail(name->place, "there are two of [[" + kind + "]] with the name \"" + name->value + "\"; rename one");
    return name->value;
  }

  void read_expectation(Table& table) {
    Expectation e;
    const std::string name = name_of_channel(table, named_expectations_);
    const Text value = table.text("value");
    e.value = make_channel(value, table.what());
    e.value.name_ = name;
    e.throughout = table.flag("throughout", false);
    if (!e.throughout) e.at = table.not_negative("at");
    if (e.at > model_.duration * (1 + 1e-9)) table.refuse("at", "at is after the end of the scene");
    if (table.has("is")) {
      if (e.value.size() == 3) {
        const Vector3d is = table.vector("is");
        e.is = {is.x(), is.y(), is.z()};
      } else {
        e.is = {table.number("is")};
      }
    } else if (!e.throughout) {
      table.refuse(
          "\"is\" is missing. Give the expected value, or write throughout = true to expect that the value stays "
          "constant");
    }
    e.tolerance = table.positive("tolerance", 1e-9);
    const auto on = [&](std::string_view host, double otherwise) {
      const toml::node* node = table.find(host);
      if (!node || !node->is_boolean()) return table.positive(host, otherwise);
      if (node->as_boolean()->get()) table.refuse(host, std::string(host) + " is a tolerance, or false: not judged");
      return 0.0;
    };
    e.tolerance_bullet = on("bullet", e.tolerance);
    e.tolerance_single = on("single", std::max(e.tolerance_bullet, 1e-4));
    table.done();
    model_.expectations.push_back(std::move(e));
  }

  Model& model_;
  const BulletImporter& import_;
  const Overrides& overrides_;
  std::list<File> files_;  // tables and contexts stay where they are
  std::vector<std::string> including_;
  std::size_t includes_ = 0, rounds_ = 0;
  std::optional<Text> needs_host_;
  Context* outermost_ = nullptr;
  std::vector<const toml::table*> logs_, expectations_;
  std::vector<Later> later_;
  std::vector<scene::JointPlan> plans_, loop_plans_;
  bool has_mjcf_ = false;
  std::vector<std::pair<SceneConstraint, Place>> robot_joints_;
  std::vector<std::pair<const toml::table*, Context>> frames_;
  std::map<std::string, int, std::less<>> frame_at_;
  std::set<std::string, std::less<>> given_positions_;  // names of robots' joints whose positions the scene gives
  scene::RobotOptions::OfJoints given_rates_;           // rates that the scene gives, by name of the joint
  std::vector<std::pair<const toml::table*, Context*>> attached_, actuators_, sensors_, starts_;
  std::vector<GeneratedLaws> generated_laws_;
  std::shared_ptr<scene::JointCoordinates> joint_coordinates_ = std::make_shared<scene::JointCoordinates>();
  std::shared_ptr<std::vector<scene::Sensor>> sensing_ = std::make_shared<std::vector<scene::Sensor>>();
  std::vector<std::pair<Context*, std::vector<Text>>> definitions_;  // of the files
  struct ReadingForces {
    const scene::Definition* definition;
    Text text;
    std::string what;
  };
  std::vector<ReadingForces> reading_forces_;
  std::vector<std::pair<std::string, Place>> definition_places_;
  std::map<std::string, Place> body_places_;  // of bodies and coordinates, by name
  std::map<std::string, int, std::less<>> body_at_;
  std::map<std::string, Place> constraints_, typed_laws_;
  std::vector<std::pair<std::string, scene::CoefficientText>> coefficient_texts_;  // by the name of the constraint
  std::map<std::pair<const scene::Source*, std::string>, Place> params_;           // of [params], by file and name
  std::set<std::string> forces_, named_logs_, named_expectations_;
  std::vector<SceneBody> coordinates_;
  Place first_coordinate_;
  struct Lagrangian {
    const toml::table* table;
    Context* context;
  };
  std::optional<Lagrangian> lagrangian_;
  std::set<std::tuple<const scene::Source*, std::size_t, std::size_t>> doubted_;
  bool method_given_ = false, host_given_ = false, dt_given_ = false, as_multibody_ = false;
  scene::Names names_;
  State state_;
};

Model load_text(std::string_view text, const std::string& path, const BulletImporter& import,
                const Overrides& overrides) {
  Model model;
  SceneReader(model, import, overrides).read(text, path);
  return model;
}

Model load(const std::string& path, const BulletImporter& import, const Overrides& overrides) {
  const Place whole{std::make_shared<const scene::Source>(path, std::string()), 0, 0};
  if (fs::path(path).extension() == ".bullet") {
    if (!overrides.params.empty() || !overrides.logs.empty())
      throw std::invalid_argument("a .bullet file has no [params] and no names; include it in a scene");
    if (overrides.robots) throw std::invalid_argument("a .bullet file has no robot; include it in a scene");
    Model model;
    SceneReader(model, import, overrides).read_bullet_alone(path);
    return model;
  }
  if (const char* key = robot_key(path)) {
    if (!overrides.params.empty())
      throw std::invalid_argument(std::string("a .") + key + " file has no [params]; include it in a scene by [model]");
    // As the scene that says nothing else; read_text() says what is wrong with the file itself.
    (void)read_text(path, whole);
    std::string quoted;
    for (const char c : fs::path(path).filename().string())
      quoted += c == '"' || c == '\\' ? std::string{'\\', c} : std::string{c};
    Model model =
        load_text("schema = " + std::to_string(schema) + "\n[model]\n" + std::string(key) + " = \"" + quoted + "\"\n",
                  path, import, overrides);
    model.files.erase(model.files.begin());
    return model;
  }
  return load_text(read_text(path, whole), path, import, overrides);
}

Result<Model> try_load(const std::string& path, const BulletImporter& import, const Overrides& overrides) noexcept {
  return try_call([&] { return load(path, import, overrides); });
}
Result<Model> try_load_text(std::string_view text, const std::string& path, const BulletImporter& import,
                            const Overrides& overrides) noexcept {
  return try_call([&] { return load_text(text, path, import, overrides); });
}

}  // namespace linchpin::scene
