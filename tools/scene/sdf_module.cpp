// The reader of SDF files, by libsdformat, which resolves frames, includes and versions. It is a module of its own,
// because each program that loads libsdformat starts 60 ms later (sdf.cpp).
#include "sdf_module.h"

#include "parts.h"
#include "robot_mesh.h"
#include "xml.h"

#include <sdf/sdf.hh>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>

namespace linchpin::scene {

namespace {

using Link = RobotFile::Link;
using Joint = RobotFile::Joint;

constexpr int most_nested = 100;

namespace fs = std::filesystem;
using Element = tinyxml2::XMLElement;

// What libsdformat prints, and the reader of URDF that it tries in vain: what is wrong is said by us. All of the
// process is kept quiet for so long.
class Hush {
 public:
  Hush() : before_(std::cerr.rdbuf(heard_.rdbuf())) { sdf::Console::Instance()->SetQuiet(true); }
  ~Hush() { std::cerr.rdbuf(before_); }
  Hush(const Hush&) = delete;
  Hush& operator=(const Hush&) = delete;

 private:
  std::ostringstream heard_;
  std::streambuf* before_;
};

std::string text_of(const Element& e) {
  std::string out;
  for (const std::string& word : words_of(e.GetText() ? e.GetText() : "")) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::optional<double> number_in(const std::string& text) {
  double x = 0;
  const char *begin = text.data() + (text.starts_with('+') ? 1 : 0), *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, x);
  if (error != std::errc() || stop != end) return {};
  return x;
}

// The files as XML, beside what libsdformat makes of them: that goes round with includes that do, crashes where one is
// empty, and tells what is wrong without its value and often without its line.
class Files {
 public:
  explicit Files(const std::shared_ptr<const Source>& main) {
    // Besides where libsdformat looks: beside the file, and for model://NAME beside the folder of the file, as
    // collections of models have it.
    sdf::setFindCallback([folder = fs::path(main->path).parent_path()](const std::string& uri) {
      const std::size_t scheme = uri.find("://");
      const bool plain = scheme == std::string::npos;
      const fs::path name = plain ? uri : uri.substr(scheme + 3);
      std::error_code error;
      if (fs::exists(folder / name, error)) return (folder / name).string();
      const fs::path beside = folder / ".." / name;
      return !plain && fs::exists(beside, error) ? beside.string() : std::string();
    });
    follow(add(main), {key(main->path)});
  }
  ~Files() { sdf::setFindCallback({}); }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  const std::vector<std::string>& warnings() const { return warnings_; }
  /// How many bytes of value 0 were left out.
  std::size_t zeros() const { return zeros_; }

  /// A line of one of the files; the whole of the first where there is none, or it is of no file.
  Place place(const std::optional<std::string>& path, const std::optional<int>& line) const {
    const auto found = path ? files_.find(key(*path)) : files_.end();
    if (path && line && found != files_.end()) return place_of(found->second->source, *line);
    return {order_.front()->source, 0, 0};
  }

  /// The element of that name which begins in that line; null where there is none.
  const Element* element(const std::optional<std::string>& path, int line, std::string_view name) const {
    const auto found = path ? files_.find(key(*path)) : files_.end();
    if (found == files_.end()) return nullptr;
    return find(found->second->document.RootElement(),
                [&](const Element& e) { return e.GetLineNum() == line && name == e.Name(); });
  }

  /// What a message without a line speaks of: the first element by whose name or type it calls, of doubles the second.
  Place mentioned(const std::string& message) const {
    const bool double_name = message.find("already exists") != std::string::npos;
    for (const std::string& word : mentions(message))
      for (const File* file : order_) {
        const auto is = [&](const Element& e) {
          return e.Attribute("name", word.c_str()) || e.Attribute("type", word.c_str());
        };
        const Element* first = find(file->document.RootElement(), is);
        const Element* second = first && double_name
                                    ? find(file->document.RootElement(),
                                           [&](const Element& e) {
                                             return &e != first && is(e) && std::string_view(e.Name()) == first->Name();
                                           })
                                    : nullptr;
        if (first) return place_of(file->source, (second ? second : first)->GetLineNum());
      }
    return {order_.front()->source, 0, 0};
  }

 private:
  struct File {
    std::shared_ptr<const Source> source;
    tinyxml2::XMLDocument document;
  };

  static std::string key(const std::string& path) {
    std::error_code error;
    return fs::weakly_canonical(path, error).string();
  }

  template <class Is>
  static const Element* find(const Element* in, const Is& is) {
    if (!in || is(*in)) return in;
    for (const Element* each = in->FirstChildElement(); each; each = each->NextSiblingElement())
      if (const Element* found = find(each, is)) return found;
    return nullptr;
  }

  // Words in brackets, without the model's name before them, and those that follow "named" and "type of".
  static std::vector<std::string> mentions(const std::string& message) {
    std::vector<std::string> out;
    for (std::size_t at = message.find('['); at != std::string::npos; at = message.find('[', at + 1)) {
      const std::string word = message.substr(at + 1, message.find(']', at) - at - 1);
      const std::size_t scope = word.rfind("::");
      out.push_back(scope == std::string::npos ? word : word.substr(scope + 2));
    }
    for (const std::string_view before : {" named ", "type of "})
      if (const std::size_t at = message.find(before); at != std::string::npos) {
        const std::size_t begin = at + before.size();
        out.push_back(message.substr(begin, message.find_first_of(" .", begin) - begin));
      }
    return out;
  }

  const File& add(const std::shared_ptr<const Source>& source) {
    auto file = std::make_unique<File>();
    file->source = source;
    zeros_ += parse_xml(file->document, source, "an SDF file begins with <sdf version=\"…\">");
    order_.push_back(file.get());
    return *(files_[key(source->path)] = std::move(file));
  }

  // @param chain  the files that include each other down to this one
  void follow(const File& file, const std::vector<std::string>& chain) {
    const Element* root = file.document.RootElement();
    if (!root) scene::fail({file.source, 0, 0}, "holds no XML element; an SDF file begins with <sdf version=\"…\">");
    if (std::string_view(root->Name()) == "sdf") check_version(file, *root);
    walk(file, *root, chain);
  }

  void walk(const File& file, const Element& e, const std::vector<std::string>& chain) {
    const std::string_view name = e.Name();
    if (name == "include") return include(file, e, chain);
    if (name == "inertial") check_inertial(file, e);
    if (name == "axis" || name == "axis2") check_axis(file, e);
    for (const Element* each = e.FirstChildElement(); each; each = each->NextSiblingElement()) walk(file, *each, chain);
  }

  void include(const File& file, const Element& e, const std::vector<std::string>& chain) {
    const Element* at = e.FirstChildElement("uri");
    const Place place = place_of(file.source, (at ? at : &e)->GetLineNum());
    const std::string uri = at ? text_of(*at) : "";
    if (uri.empty()) scene::fail(place, "<include> has no <uri>");
    for (const char* part : {"name", "static", "placement_frame"})
      if (const Element* given = e.FirstChildElement(part); given && !given->GetText())
        scene::fail(place_of(file.source, given->GetLineNum()), "<include>, <" + std::string(part) + "> is empty");
    std::string path = sdf::findFile(uri, true, true);
    std::error_code error;
    if (!path.empty() && fs::is_directory(path, error)) path = sdf::getModelFilePath(path);
    if (path.empty() || !fs::is_regular_file(path, error))
      scene::fail(place, "<include>: there is no \"" + uri + "\", neither beside the file nor on SDF_PATH");
    const std::string real = key(path);
    if (std::find(chain.begin(), chain.end(), real) != chain.end())
      scene::fail(place,
                  "\"" + uri + "\" includes itself" + (chain.back() == real ? "" : ", by way of " + file.source->path));
    if (++includes_ > most_includes)
      scene::fail(place, "the file has more than " + std::to_string(most_includes) + " includes, which is the limit");
    const auto known = files_.find(real);
    std::vector<std::string> longer = chain;
    longer.push_back(real);
    follow(known != files_.end() ? *known->second : add(read(path, place)), longer);
  }

  static std::shared_ptr<const Source> read(const std::string& path, const Place& from) {
    constexpr std::uintmax_t most = 8u << 20;
    std::error_code error;
    if (fs::file_size(path, error) > most || error) scene::fail(from, "\"" + path + "\" is larger than 8 MB: no robot");
    std::ifstream in(path, std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
    if (!in) scene::fail(from, "\"" + path + "\" cannot be read");
    return std::make_shared<const Source>(path, std::move(text));
  }

  void check_version(const File& file, const Element& root) {
    const char* version = root.Attribute("version");
    const Place place = place_of(file.source, root.GetLineNum());
    if (!version) scene::fail(place, "<sdf> has no version=\"…\"");
    const auto part = [](const std::string& of, std::size_t k) {
      const std::size_t dot = of.find('.');
      return number_in(k == 0 ? of.substr(0, dot) : dot == std::string::npos ? "0" : of.substr(dot + 1)).value_or(-1);
    };
    const std::string known = sdf::SDF::Version();
    const std::pair is{part(version, 0), part(version, 1)}, most{part(known, 0), part(known, 1)};
    if (is.first < 0 || is.second < 0) scene::fail(place, "<sdf>: \"" + std::string(version) + "\" is not a version");
    if (is > most)
      warnings_.push_back(warning(place, "version " + std::string(version) + " is newer than libsdformat's " + known +
                                             ", as which it is read"));
  }

  // Where libsdformat says that the inertia is wrong, and no more.
  static void check_inertial(const File& file, const Element& e) {
    const auto in = [&](const Element* at, const std::string& message) {
      scene::fail(place_of(file.source, (at ? at : &e)->GetLineNum()), "<inertial>" + message);
    };
    const Element *mass = e.FirstChildElement("mass"), *inertia = e.FirstChildElement("inertia");
    // libsdformat takes what a number begins with, "1 kg" for 1.
    const auto number = [&](const Element* at, const std::string& name, double otherwise) {
      const auto x = at ? number_in(text_of(*at)) : std::optional(otherwise);
      if (!x || !std::isfinite(*x)) in(at, ", <" + name + ">: \"" + text_of(*at) + "\" is not a number");
      return x.value_or(otherwise);
    };
    if (number(mass, "mass", 1) < 0) in(mass, ", <mass>: \"" + text_of(*mass) + "\" is below 0");
    if (!inertia) return;
    for (const char* name : {"ixx", "iyy", "izz", "ixy", "ixz", "iyz"})
      (void)number(inertia->FirstChildElement(name), name, 0);
  }

  // A joint without a coordinate has no use for its axis.
  static void check_axis(const File& file, const Element& e) {
    const Element* joint = e.Parent() ? e.Parent()->ToElement() : nullptr;
    if (joint && (joint->Attribute("type", "fixed") || joint->Attribute("type", "ball"))) return;
    const Element* xyz = e.FirstChildElement("xyz");
    const std::vector<std::string> words = xyz ? words_of(text_of(*xyz)) : std::vector<std::string>{"1"};
    if (std::all_of(words.begin(), words.end(), [](const std::string& w) { return number_in(w) == 0.0; }))
      scene::fail(
          place_of(file.source, xyz->GetLineNum()),
          "<" + std::string(e.Name()) + ">, <xyz>: \"" + text_of(*xyz) + "\": an axis of length zero has no direction");
  }

  static constexpr int most_includes = 1000;
  std::map<std::string, std::unique_ptr<File>> files_;  // by canonical path
  std::vector<const File*> order_;                      // the one that was asked for first
  std::vector<std::string> warnings_;
  std::size_t zeros_ = 0;
  int includes_ = 0;
};

class Reader {
 public:
  Reader(const std::string& text, const std::string& path, std::size_t mesh_hulls)
      : source_(std::make_shared<const Source>(path, text)), files_(source_), meshes_(mesh_hulls) {}

  RobotFile read() {
    // libsdformat would read a URDF file too, and say less of what is wrong with it.
    if (source_->text.find("<gazebo") != std::string::npos && source_->text.find("<sdf") == std::string::npos)
      fail({source_, 0, 0},
           "<gazebo>: this is SDF 1.2 or older, which libsdformat 12 does not read. Use SDF 1.3 or later");
    if (source_->text.find("<sdf") == std::string::npos)
      fail({source_, 0, 0}, "holds no <sdf>; an SDF file begins with <sdf version=\"…\">");
    sdf::Root root;
    try {
      // libsdformat does not find a file by its bare name in the present folder.
      refuse(serious(root.Load(fs::absolute(source_->path).string())));
    } catch (const SceneError&) {
      throw;
    } catch (const std::exception& e) {
      fail({source_, 0, 0}, std::string("libsdformat fails on it: ") + e.what());
    }
    out_.warnings = files_.warnings();
    if (files_.zeros() > 0) out_.notes.add(note_of_zeros(files_.zeros()));
    // One model, or a world of them.
    if (const sdf::Model* model = root.Model()) read_model(*model, root.Model()->RawPose(), "", 0);
    for (std::uint64_t w = 0; w < root.WorldCount(); ++w) {
      const sdf::World& world = *root.WorldByIndex(w);
      if (w > 0) fail(place_of(world.Element()), "there is more than one <world>");
      for (std::uint64_t i = 0; i < world.ModelCount(); ++i) {
        const sdf::Model& model = *world.ModelByIndex(i);
        read_model(model, resolved(model, ""), world.ModelCount() > 1 ? model.Name() + "::" : "", 0);
      }
    }
    if (out_.links.empty()) fail({source_, 0, 0}, "holds no <model> with a <link>");
    resolve_mimics(out_);
    grow();
    return std::move(out_);
  }

 private:
  using Pose3 = ignition::math::Pose3d;

  // ---- places and messages ----

  Place place_of(const sdf::ElementPtr& e) const {
    if (!e || !e->LineNumber()) return {source_, 0, 0};
    return files_.place(e->FilePath().empty() ? source_->path : e->FilePath(), *e->LineNumber());
  }
  // Leaves out errors of libsdformat that this reader does not share. They are about inertias, which are tested with
  // their body, about links and joints called world, and about materials. An axis of length zero is one for moving
  // joints only, where Files::check_axis has found it.
  static sdf::Errors serious(const sdf::Errors& errors) {
    sdf::Errors out;
    for (const sdf::Error& each : errors) {
      const std::string& message = each.Message();
      const bool harmless =
          each.Code() == sdf::ErrorCode::LINK_INERTIA_INVALID ||
          (each.Code() == sdf::ErrorCode::RESERVED_NAME && message.find("name [world]") != std::string::npos) ||
          message.find("<script> element is missing") != std::string::npos ||
          message.find("norm of the xyz vector cannot be zero") != std::string::npos;
      if (!harmless) out.push_back(each);
    }
    // This error only follows from the others.
    if (std::all_of(out.begin(), out.end(), [](const auto& e) { return e.Message() == "Failed to load a world."; }))
      out.clear();
    return out;
  }
  // Of a fault and what follows from it, the first that has a line.
  void refuse(const sdf::Errors& errors) const {
    if (errors.empty()) return;
    const auto lined = std::find_if(errors.begin(), errors.end(), [](const auto& e) { return e.LineNumber(); });
    const sdf::Error& first = lined == errors.end() ? errors.front() : *lined;
    if (lined == errors.end()) fail(files_.mentioned(first.Message()), first.Message());
    // A file that is included: what is wrong with it is told to nobody but whoever reads it alone.
    constexpr std::string_view unread = "Unable to read file[", unset = "Error reading element <";
    if (first.Message().starts_with(unread)) {
      sdf::Root alone;
      refuse(serious(alone.Load(first.Message().substr(unread.size(), first.Message().size() - unread.size() - 1))));
    }
    std::string message = first.Message();
    if (message.starts_with(unset)) {
      const std::string name = message.substr(unset.size(), message.find('>') - unset.size());
      const Element* e = files_.element(first.FilePath(), *first.LineNumber(), name);
      message = "<" + name + ">: " + (e ? "\"" + text_of(*e) + "\"" : "this") + " is not a value of it";
    }
    fail(files_.place(first.FilePath(), first.LineNumber()), message);
  }

  // ---- values ----

  Pose pose_of(const Pose3& from, const sdf::ElementPtr& e, const std::string& who) const {
    const auto& p = from.Pos();
    const auto& q = from.Rot();
    const Pose out{{p.X(), p.Y(), p.Z()}, Quaterniond(q.W(), q.X(), q.Y(), q.Z()).normalized()};
    if (!out.p.allFinite() || !(out.q.norm() > 0.5) || out.p.cwiseAbs().maxCoeff() > 1e9)
      fail(place_of(e), who + ": its pose is outside the supported range (1e9 m). Use SI units");
    return out;
  }
  // In the frame of that name; the default one where it is empty.
  template <class T>
  Pose3 resolved(const T& of, const std::string& in) const {
    Pose3 out;
    if (const sdf::Errors errors = of.SemanticPose().Resolve(out, in); !errors.empty())
      fail(files_.mentioned(errors.front().Message()), errors.front().Message());
    return out;
  }
  double number(double x, const sdf::ElementPtr& e, const std::string& what) const {
    if (!std::isfinite(x) || std::abs(x) > 1e9) fail(place_of(e), what + " is " + shown(x));
    return x;
  }

  // ---- the file ----

  void read_model(const sdf::Model& model, const Pose3& in_world, const std::string& prefix, int depth) {
    if (depth == most_nested) fail(place_of(model.Element()), "models lie more than 100 deep in one another");
    const Pose X = pose_of(in_world, model.Element(), "model \"" + model.Name() + "\"");
    for (std::uint64_t i = 0; i < model.LinkCount(); ++i) read_link(*model.LinkByIndex(i), X, prefix, model.Static());
    for (std::uint64_t i = 0; i < model.ModelCount(); ++i) {
      const sdf::Model& inner = *model.ModelByIndex(i);
      read_model(inner, in_world * resolved(inner, "__model__"), prefix + inner.Name() + "::", depth + 1);
    }
    if (model.Static()) return;  // nothing in it moves
    for (std::uint64_t i = 0; i < model.JointCount(); ++i) read_joint(*model.JointByIndex(i), X, prefix);
  }

  void read_link(const sdf::Link& from, const Pose& X, const std::string& prefix, bool held) {
    if (out_.links.size() == most_links)
      fail(place_of(from.Element()),
           "the robot has more than " + std::to_string(most_links) + " links, which is the limit");
    Link link;
    link.name = prefix + from.Name();
    link.at = place_of(from.Element());
    link.held = held || from.Name() == "world";
    const std::string who = "link \"" + link.name + "\"";
    link.pose = X * pose_of(resolved(from, "__model__"), from.Element(), who);
    link_at_.emplace(link.name, static_cast<int>(out_.links.size()));
    if (!link.held) link.inertial = inertial_of(from, link.name, who);
    for (std::uint64_t i = 0; i < from.CollisionCount(); ++i) read_collision(*from.CollisionByIndex(i), link, who);
    poses_.push_back(link.pose);
    out_.links.push_back(std::move(link));
  }

  RobotFile::Inertial inertial_of(const sdf::Link& from, const std::string& link_name, const std::string& who) {
    RobotFile::Inertial out;
    const sdf::ElementPtr e =
        from.Element()->HasElement("inertial") ? from.Element()->GetElement("inertial") : from.Element();
    const auto& of = from.Inertial();
    out.frame = pose_of(of.Pose(), e, who);
    out.at = place_of(e);
    out.mass = number(of.MassMatrix().Mass(), e, who + ": its mass");
    const auto& I = of.MassMatrix();
    out.inertia << I.Ixx(), I.Ixy(), I.Ixz(), I.Ixy(), I.Iyy(), I.Iyz(), I.Ixz(), I.Iyz(), I.Izz();
    if (!out.inertia.allFinite()) fail(place_of(e), who + ": its inertia is not finite");
    constexpr RobotNotes::Kind standard{"link", "has no <inertial>: it has 1 kg and 1 kg m^2 by the SDF standard",
                                        "have no <inertial>: they have 1 kg and 1 kg m^2 by the SDF standard"};
    if (e == from.Element()) out_.notes.add(standard, link_name);
    return out;
  }

  void read_collision(const sdf::Collision& from, Link& link, const std::string& who) {
    PlacedShape out;
    out.pose = pose_of(resolved(from, ""), from.Element(), who);
    bool empty = false;
    const auto size = [&](double x) {
      if (number(x, from.Element(), who + ", <collision>: a length") < 0)
        fail(place_of(from.Element()), who + ", <collision>: every length must be above 0");
      empty = empty || x == 0;
      return x;
    };
    const sdf::Geometry& g = *from.Geom();
    if (const sdf::Box* box = g.BoxShape(); box && g.Type() == sdf::GeometryType::BOX) {
      out.shape = {Shape::Kind::box, {size(box->Size().X()), size(box->Size().Y()), size(box->Size().Z())}};
    } else if (g.Type() == sdf::GeometryType::SPHERE) {
      out.shape = {Shape::Kind::sphere, {size(g.SphereShape()->Radius()), 0, 0}};
    } else if (g.Type() == sdf::GeometryType::CYLINDER) {
      out.shape = {Shape::Kind::cylinder, {size(g.CylinderShape()->Radius()), size(g.CylinderShape()->Length()), 0}};
    } else if (g.Type() == sdf::GeometryType::CAPSULE) {
      out.shape = {Shape::Kind::capsule, {size(g.CapsuleShape()->Radius()), size(g.CapsuleShape()->Length()), 0}};
    } else if (g.Type() == sdf::GeometryType::PLANE) {
      const auto n = g.PlaneShape()->Normal();
      link.planes.push_back(half_space(out.pose, Vector3d(n.X(), n.Y(), n.Z()).normalized()));
      out_.notes.add(notes::plane, link.name);
      return;
    } else if (const sdf::Mesh* mesh = g.MeshShape(); mesh && g.Type() == sdf::GeometryType::MESH) {
      const auto scale = mesh->Scale();
      const Vector3d of{scale.X(), scale.Y(), scale.Z()};
      if (!of.allFinite()) fail(place_of(from.Element()), who + ", <collision>: the scale of a mesh is not finite");
      const std::string in = mesh->FilePath().empty() ? source_->path : mesh->FilePath();
      meshes_.add({mesh->Uri(), in, of, mesh->Submesh(), mesh->CenterSubmesh() && !mesh->Submesh().empty()}, out.pose,
                  link, out_);
      return;
    } else {
      out_.notes.add(notes::no_shape, link.name, "collision " + from.Name());
      return;
    }
    if (empty) {
      out_.notes.add(notes::no_size, link.name);
      return;
    }
    if (out.shape.kind == Shape::Kind::cylinder || out.shape.kind == Shape::Kind::capsule)
      out.pose.q = out.pose.q * upright();
    link.shapes.push_back(out);
  }

  int link_named(const std::string& name, const sdf::Joint& joint, const std::string& who) {
    if (const auto found = link_at_.find(name); found != link_at_.end()) return found->second;
    if (name == "world" || name.ends_with("::world")) {
      Link ground;
      ground.name = "world";
      ground.at = place_of(joint.Element());
      ground.held = true;
      link_at_.emplace(name, static_cast<int>(out_.links.size()));
      poses_.emplace_back();
      out_.links.push_back(std::move(ground));
      return static_cast<int>(out_.links.size()) - 1;
    }
    fail(place_of(joint.Element()), who + ": there is no link \"" + name + "\"");
  }

  static std::optional<Joint::Kind> kind_of(sdf::JointType type) {
    switch (type) {
      case sdf::JointType::REVOLUTE:
        return Joint::Kind::revolute;
      case sdf::JointType::CONTINUOUS:
        return Joint::Kind::continuous;
      case sdf::JointType::PRISMATIC:
        return Joint::Kind::prismatic;
      case sdf::JointType::FIXED:
        return Joint::Kind::fixed;
      case sdf::JointType::BALL:
        return Joint::Kind::ball;
      default:
        return {};
    }
  }

  void read_joint(const sdf::Joint& from, const Pose& X, const std::string& prefix) {
    Joint joint;
    joint.name = prefix + from.Name();
    joint.at = place_of(from.Element());
    const std::string who = "joint \"" + joint.name + "\"";
    if (from.Type() == sdf::JointType::GEARBOX) return read_gearbox(from, joint, X, prefix, who);
    const auto kind = kind_of(from.Type());
    if (!kind)
      fail(joint.at,
           who + ": joints of type \"" + from.Element()->Get<std::string>("type") +
               "\" are not supported. Supported are fixed, revolute, continuous, prismatic, ball and gearbox. Write "
               "others as [[joint]] in a scene");
    joint.kind = *kind;
    find_links(from, joint, prefix, who);
    if (out_.links[static_cast<std::size_t>(joint.child)].name == "world")
      fail(joint.at, who + ": the world cannot be the child of a joint. Make it the parent");
    const Pose at = X * pose_of(resolved(from, "__model__"), from.Element(), who);
    joint.in_parent = inverse(pose(joint.parent)) * at;
    joint.in_child = inverse(pose(joint.child)) * at;
    if (from.Element()->HasElement("mimic"))
      fail(place_of(from.Element()->GetElement("mimic")), who + ": <mimic> stands in its <axis>, as of SDF 1.11");
    if (joint.turns() || joint.slides()) read_axis(from, joint, prefix, who);
    out_.joints.push_back(std::move(joint));
  }

  void find_links(const sdf::Joint& from, Joint& joint, const std::string& prefix, const std::string& who) {
    std::string parent, child;
    refuse(from.ResolveParentLink(parent));
    refuse(from.ResolveChildLink(child));
    joint.parent = link_named(parent == "world" ? parent : prefix + parent, from, who);
    joint.child = link_named(child == "world" ? child : prefix + child, from, who);
  }

  // As in Gazebo: the joint couples the rotations of its parent and of its child relative to a third link, and other
  // joints hold these links.
  void read_gearbox(const sdf::Joint& from, Joint& joint, const Pose& X, const std::string& prefix,
                    const std::string& who) {
    find_links(from, joint, prefix, who);
    RobotFile::Gear gear;
    gear.name = joint.name, gear.at = joint.at;
    gear.links[0] = joint.parent, gear.links[1] = joint.child;
    const sdf::ElementPtr e = from.Element();
    const auto text = [&](const char* part) {
      return e->HasElement(part) && e->GetElement(part)->GetValue() ? e->GetElement(part)->GetValue()->GetAsString()
                                                                    : std::string();
    };
    const std::string reference = text("gearbox_reference_body");
    if (reference.empty() || reference == "__default__")
      fail(joint.at, who + ": a gearbox needs <gearbox_reference_body>, the link to which its two angles refer");
    if (reference != "world" && !link_at_.contains(prefix + reference)) {
      std::vector<std::string> known;
      for (const Link& each : out_.links) known.push_back(each.name);
      fail(joint.at,
           who + ", <gearbox_reference_body>: there is no link \"" + reference + "\"" + suggestion(reference, known));
    }
    gear.reference = link_named(reference == "world" ? reference : prefix + reference, from, who);
    if (gear.reference == joint.parent || gear.reference == joint.child)
      fail(joint.at, who + ", <gearbox_reference_body>: \"" + reference +
                         "\" is a link of the joint itself. The two angles refer to a third link");
    if (const std::string ratio = text("gearbox_ratio"); !ratio.empty()) {
      const auto all = words_of(ratio);
      const auto x = all.size() == 1 ? number_in(all[0]) : std::nullopt;
      if (!x || !(std::abs(*x) < 1e9) || *x == 0)
        fail(joint.at, who + ", <gearbox_ratio>: \"" + ratio + "\" is not a finite number other than 0");
      gear.ratio = *x;
    }
    const Pose at = X * pose_of(resolved(from, "__model__"), e, who), to_reference = inverse(pose(gear.reference));
    bool used = false;
    for (unsigned k = 0; k < 2; ++k) {
      const sdf::JointAxis* axis = from.Axis(k);
      const std::string name = k == 0 ? "<axis>" : "<axis2>";
      if (!axis) fail(joint.at, who + ": a gearbox needs <axis> and <axis2>, but has no " + name);
      ignition::math::Vector3d u;
      refuse(axis->ResolveXyz(u));
      const Vector3d direction(u.X(), u.Y(), u.Z());
      if (!direction.allFinite() || !(direction.norm() > 1e-9))
        fail(place_of(axis->Element()), who + ", " + name + ": an axis of length zero has no direction");
      gear.axes[k] = to_reference.q * (at.q * direction.normalized());
      gear.frames[k] = to_reference * pose(gear.links[k]);
      used = used || axis->Damping() != 0 || axis->Friction() != 0 || axis->Lower() > -no_limit ||
             axis->Upper() < no_limit;
    }
    constexpr RobotNotes::Kind without{"joint", "is a gearbox, whose own limits, damping and friction are left out",
                                       "are gearboxes, whose own limits, damping and friction are left out",
                                       "Give them to the joints that hold its links"};
    if (used) out_.notes.add(without, joint.name);
    out_.gears.push_back(std::move(gear));
  }

  void read_axis(const sdf::Joint& from, Joint& joint, const std::string& prefix, const std::string& who) {
    const sdf::JointAxis* axis = from.Axis();
    if (!axis) fail(joint.at, who + " has no <axis>");
    ignition::math::Vector3d u;
    refuse(axis->ResolveXyz(u));
    joint.axis = {u.X(), u.Y(), u.Z()};
    if (!joint.axis.allFinite() || !(joint.axis.norm() > 1e-9))
      fail(place_of(axis->Element()), who + ", <axis>: an axis of length zero has no direction");
    joint.axis.normalize();
    joint.damping = number(axis->Damping(), axis->Element(), who + ": its damping");
    joint.friction = number(axis->Friction(), axis->Element(), who + ": its friction");
    if (joint.damping < 0) fail(place_of(axis->Element()), who + ", <axis>: damping below 0");
    if (joint.friction < 0) fail(place_of(axis->Element()), who + ", <axis>: friction below 0");
    joint.stiffness = number(axis->SpringStiffness(), axis->Element(), who + ": its spring_stiffness");
    joint.spring_reference = number(axis->SpringReference(), axis->Element(), who + ": its spring_reference");
    if (joint.stiffness < 0) fail(place_of(axis->Element()), who + ", <axis>: spring_stiffness below 0");
    read_mimic(axis->Element(), joint, prefix, who);
    // The standard's default of both is −1, which is no bound. Many files have 0, which is none either.
    if (axis->Effort() > 0 && axis->Effort() < no_limit) joint.max_force = axis->Effort();
    if (axis->MaxVelocity() > 0 && axis->MaxVelocity() < no_limit) joint.max_rate = axis->MaxVelocity();
    if (joint.kind == Joint::Kind::continuous) return;
    // The standard's default is 1e16 to either side.
    const bool low = axis->Lower() > -no_limit, high = axis->Upper() < no_limit;
    if (low != high) out_.notes.add(notes::one_limit, joint.name);
    if (!low || !high) return;
    joint.limits = {axis->Lower(), axis->Upper()};
    if (!(joint.limits->first <= joint.limits->second))
      fail(place_of(axis->Element()),
           who + ", <limit>: lower " + shown(joint.limits->first) + " is above upper " + shown(joint.limits->second));
  }

  // Of SDF 1.11, which libsdformat 12 copies unread: position = multiplier·(leader's − reference) + offset.
  void read_mimic(const sdf::ElementPtr& axis, Joint& joint, const std::string& prefix, const std::string& who) {
    if (!axis || !axis->HasElement("mimic")) return;
    const sdf::ElementPtr e = axis->GetElement("mimic");
    const Place place = e->LineNumber() ? place_of(e) : place_of(axis);
    const auto word = [&](const char* attribute) {
      return e->HasAttribute(attribute) ? e->GetAttribute(attribute)->GetAsString() : std::string();
    };
    const auto value = [&](const char* part, double otherwise) {
      if (!e->HasElement(part) || !e->GetElement(part)->GetValue()) return otherwise;
      const std::string text = e->GetElement(part)->GetValue()->GetAsString();
      const auto all = words_of(text);
      const auto x = all.size() == 1 ? number_in(all[0]) : std::nullopt;
      if (!x || !(std::abs(*x) < 1e9))
        fail(place,
             who + ", <mimic>, <" + part + ">: \"" + text + "\" is not a finite number in the supported range (1e9)");
      return *x;
    };
    if (word("joint").empty()) fail(place, who + ", <mimic> has no joint=\"…\"");
    if (const std::string of = word("axis"); !of.empty() && of != "axis")
      fail(place, who + ", <mimic>: joints here have one axis, and no \"" + of + "\" that could be followed");
    const double multiplier = value("multiplier", 1), offset = value("offset", 0), reference = value("reference", 0);
    joint.mimic = Joint::Mimic{prefix + word("joint"), -1, place, multiplier, offset - multiplier * reference};
  }

  const Pose& pose(int link) const { return poses_[static_cast<std::size_t>(link)]; }

  // A tree of the joints as they stand: a link hangs by the first that names it as child, unless it would hang on
  // itself. The other joints close loops.
  void grow() {
    std::vector<std::vector<int>> children(out_.links.size());
    for (std::size_t k = 0; k < out_.joints.size(); ++k) {
      const Joint& j = out_.joints[k];
      Link& child = out_.links[static_cast<std::size_t>(j.child)];
      int up = j.parent;
      while (up != j.child && out_.links[static_cast<std::size_t>(up)].joint >= 0)
        up = out_.joints[static_cast<std::size_t>(out_.links[static_cast<std::size_t>(up)].joint)].parent;
      if (up == j.child || child.joint >= 0 || child.held) continue;
      child.joint = static_cast<int>(k);
      children[static_cast<std::size_t>(j.parent)].push_back(j.child);
    }
    for (std::size_t i = 0; i < out_.links.size(); ++i)
      if (out_.links[i].joint < 0) out_.order.push_back(static_cast<int>(i));
    for (std::size_t k = 0; k < out_.order.size(); ++k)
      for (const int child : children[static_cast<std::size_t>(out_.order[k])]) out_.order.push_back(child);
  }

  Hush hush_;
  std::shared_ptr<const Source> source_;
  Files files_;
  std::map<std::string, int, std::less<>> link_at_;
  std::vector<Pose> poses_;  // of links, in the file's frame
  RobotMeshes meshes_;
  RobotFile out_;
};

RobotFile read(const std::string& text, const std::string& path, std::size_t mesh_hulls) {
  return Reader(text, path, mesh_hulls).read();
}

}  // namespace

}  // namespace linchpin::scene

extern "C" __attribute__((visibility("default")))
const linchpin::scene::SdfModule linchpin_sdf{LINCHPIN_VERSION, linchpin::scene::read};
