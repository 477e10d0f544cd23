#include "source.h"

#include "renamed.h"

#include <algorithm>
#include <cmath>

namespace linchpin::scene {

namespace {

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// The byte at which a column of code points begins.
std::size_t byte_of(std::string_view line, std::size_t column) {
  std::size_t at = 0;
  for (std::size_t c = 1; c < column && at < line.size(); ++c) do
      ++at;
    while (at < line.size() && continues(line[at]));
  return at;
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    out += u < 0x20 || u == 0x7f ? '?' : c;
  }
  return out;
}

// The part of a long line around the place.
std::string excerpt(std::string_view line, std::size_t at, std::size_t& caret) {
  constexpr std::size_t most = 160;
  std::size_t from = 0;
  if (line.size() > most && at > most / 2) from = std::min(at - most / 2, line.size() - most);
  while (from > 0 && from < line.size() && continues(line[from])) --from;
  std::size_t length = std::min(most, line.size() - from);
  while (from + length < line.size() && continues(line[from + length])) ++length;
  const std::string_view part = line.substr(from, length);
  caret = 0;
  for (std::size_t i = from; i < std::min(at, line.size()); ++i) caret += !continues(line[i]);
  return printable(part);
}

// "file:line:column: error: …", the line and a caret.
std::string shown(const Place& place, const char* kind, const std::string& message, std::string_view line,
                  std::size_t at) {
  std::size_t caret = 0;
  std::string whole = place.source ? place.source->path : std::string("scene");
  if (place.line > 0) whole += ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
  whole += std::string(": ") + kind + ": " + printable(shortened(message));
  if (place.line > 0 && !line.empty()) {
    const std::string part = excerpt(line, at, caret);
    whole += "\n  " + part + "\n  " + std::string(caret, ' ') + "^";
  }
  return whole;
}

[[noreturn]] void fail_with(const Place& place, const std::string& message, std::string_view line, std::size_t at) {
  throw SceneError(shown(place, "error", message, line, at), place.source ? place.source->path : "", place.line,
                   place.column, shortened(message));
}

// {i}, {i+1}, {i-2} by the indices of the generators around.
std::string substituted(const Context& context, const std::string& text, const Place& place) {
  if (context.indices.empty() || text.find('{') == std::string::npos) return text;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] != '{') {
      out += text[at++];
      continue;
    }
    const std::size_t end = text.find('}', at);
    if (end == std::string::npos) fail(place, "'{' is not closed");
    Constants indices;
    for (const auto& [name, value] : context.indices) indices[name] = value;
    double value = 0;
    try {
      const Constant c = constant(std::string_view(text).substr(at + 1, end - at - 1), indices);
      if (!std::holds_alternative<double>(c)) fail(place, "{…} is a whole number, not a vector");
      value = std::get<double>(c);
    } catch (const Fault& fault) {
      fail(place, "in {…}: " + std::string(fault.what()));
    }
    if (!(std::abs(value) < 1e9) || value != std::floor(value)) fail(place, "{…} is a whole number");
    out += std::to_string(static_cast<long>(value));
    at = end + 1;
  }
  return out;
}

const char* kind_of(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "an array";
    case toml::node_type::string:
      return "a text";
    case toml::node_type::integer:
    case toml::node_type::floating_point:
      return "a number";
    case toml::node_type::boolean:
      return "true or false";
    default:
      return "a date or time";
  }
}

// TOML tables forget their order; one entry may use another that stands before it.
std::vector<std::pair<const toml::key*, const toml::node*>> in_order(const toml::table& table) {
  std::vector<std::pair<const toml::key*, const toml::node*>> ordered;
  for (const auto& [name, node] : table) ordered.emplace_back(&name, &node);
  std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    const auto &x = a.first->source().begin, &y = b.first->source().begin;
    return std::pair(x.line, x.column) < std::pair(y.line, y.column);
  });
  return ordered;
}

}  // namespace

Source::Source(std::string path_, std::string text_) : path(std::move(path_)), text(std::move(text_)), starts_{0} {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\n') starts_.push_back(i + 1);
}

std::string_view Source::line(std::size_t number) const {
  if (number < 1 || number > starts_.size()) return {};
  std::string_view rest = std::string_view(text).substr(starts_[number - 1]);
  rest = rest.substr(0, rest.find('\n'));
  if (rest.ends_with('\r')) rest.remove_suffix(1);
  return rest;
}

void fail(const Place& place, const std::string& message) {
  const std::string_view line = place.source ? place.source->line(place.line) : std::string_view();
  fail_with(place, message, line, byte_of(line, place.column));
}

std::string warning(const Place& place, const std::string& message) {
  const std::string_view line = place.source->line(place.line);
  return shown(place, "warning", message, line, byte_of(line, place.column));
}

Place place_of(const Context& context, const toml::node& node) {
  return {context.source, node.source().begin.line, node.source().begin.column};
}

void Text::fail(const Fault& fault, const std::string& who) const {
  const std::string message = who + ": " + fault.what();
  if (!verbatim) {
    // The text itself carries the caret: in the file it has escapes, line ends or {i} in it.
    Place at = place;
    at.column += 1;
    fail_with(at, message, value, fault.at);
  }
  const std::string_view line = place.source->line(place.line);
  const std::size_t byte = byte_of(line, place.column) + 1 + fault.at;
  Place at = place;
  at.column = 1;
  for (std::size_t i = 0; i < std::min(byte, line.size()); ++i) at.column += !continues(line[i]);
  fail_with(at, message, line, byte);
}

Text text_of(const Context& context, const toml::node& node, const std::string& what) {
  Text text;
  text.place = place_of(context, node);
  const auto* string = node.as_string();
  if (!string) fail(text.place, what + " is a text in quotes, not " + kind_of(node));
  text.value = substituted(context, string->get(), text.place);
  const std::string_view line = context.source->line(text.place.line);
  const std::size_t at = byte_of(line, text.place.column) + 1;
  text.verbatim = at <= line.size() && line.substr(at).starts_with(text.value);
  return text;
}

namespace {

// The fault of a text that reads parameters only, where it reads a definition.
Fault of_parameters(const Fault& fault, const Context& context) {
  const std::string_view what = fault.what();
  for (const Definition* d = context.names.definitions.get(); d; d = d->before.get())
    if (what.starts_with("unknown name '" + d->name + "'"))
      return {
          fault.at,
          "\"" + d->name + "\" is a definition and may change during the motion. Use numbers and parameters only here"};
  return fault;
}

}  // namespace

double number_of(const Context& context, const toml::node& node, const std::string& what) {
  double value = 0;
  if (const auto* i = node.as_integer()) {
    value = static_cast<double>(i->get());
  } else if (const auto* f = node.as_floating_point()) {
    value = f->get();
  } else if (node.is_string()) {
    const Text text = text_of(context, node, what);
    try {
      const Constant c = constant(text.value, context.names.constants);
      if (!std::holds_alternative<double>(c)) throw Fault(0, "this is a vector, expected a number");
      value = std::get<double>(c);
    } catch (const Fault& fault) {
      text.fail(of_parameters(fault, context), what);
    }
  } else {
    fail(place_of(context, node), what + " is a number, or an expression in quotes, not " + kind_of(node));
  }
  if (!std::isfinite(value)) fail(place_of(context, node), what + " is not finite");
  if (std::abs(value) > 1e100) fail(place_of(context, node), what + " is beyond all bounds");
  return value;
}

Vector3d vector_of(const Context& context, const toml::node& node, const std::string& what) {
  if (const auto* array = node.as_array()) {
    if (array->size() != 3)
      fail(place_of(context, node), what + " has " + std::to_string(array->size()) + " components, expected [x, y, z]");
    Vector3d v;
    for (std::size_t i = 0; i < 3; ++i)
      v[static_cast<Eigen::Index>(i)] = number_of(context, *array->get(i), what + ", component " + std::to_string(i));
    return v;
  }
  if (!node.is_string())
    fail(place_of(context, node), what + " is a vector [x, y, z], or an expression in quotes, not " + kind_of(node));
  const Text text = text_of(context, node, what);
  try {
    const Constant c = constant(text.value, context.names.constants);
    if (!std::holds_alternative<Vector3d>(c)) throw Fault(0, "this is a number, expected a vector [x, y, z]");
    const Vector3d v = std::get<Vector3d>(c);
    if (!v.allFinite()) throw Fault(0, "this is not finite");
    return v;
  } catch (const Fault& fault) {
    text.fail(of_parameters(fault, context), what);
  }
}

Table::Table(Context& context, const toml::table& table, std::string what)
    : context_(context), table_(table), what_(std::move(what)) {}

const toml::node* Table::find(std::string_view key) {
  known_.emplace(key);
  return table_.get(key);
}

const toml::node& Table::need(std::string_view key) {
  const toml::node* node = find(key);
  if (!node) {
    // Of what else nobody has asked for yet, only a slip of this very key is to blame.
    for (const auto& [other, unread] : table_)
      if (!known_.contains(other.str()) &&
          (nearest(other.str(), {known_.begin(), known_.end()}) == key || renamed_key(what_, other.str()) == key))
        unknown(other);
    scene::fail(place(), what_ + ": \"" + std::string(key) + "\" is missing");
  }
  return *node;
}

double Table::number(std::string_view key, std::optional<double> otherwise) {
  const toml::node* node = otherwise ? find(key) : &need(key);
  return node ? number_of(context_, *node, what_ + ", " + std::string(key)) : *otherwise;
}

double Table::positive(std::string_view key, std::optional<double> otherwise) {
  const double x = number(key, otherwise);
  if (!(x > 0)) refuse(key, std::string(key) + " must be above 0");
  return x;
}

double Table::not_negative(std::string_view key, std::optional<double> otherwise) {
  const double x = number(key, otherwise);
  if (!(x >= 0)) refuse(key, std::string(key) + " must not be below 0");
  return x;
}

int Table::whole(std::string_view key, int least, int most, std::optional<int> otherwise) {
  const double x = number(key, otherwise ? std::optional<double>(*otherwise) : std::nullopt);
  if (!(x >= least && x <= most) || x != std::floor(x))
    refuse(key, std::string(key) + " is a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return static_cast<int>(x);
}

bool Table::flag(std::string_view key, bool otherwise) {
  const toml::node* node = find(key);
  if (!node) return otherwise;
  const auto* value = node->as_boolean();
  if (!value) refuse(key, std::string(key) + " is true or false");
  return value->get();
}

Vector3d Table::vector(std::string_view key, std::optional<Vector3d> otherwise) {
  const toml::node* node = otherwise ? find(key) : &need(key);
  return node ? vector_of(context_, *node, what_ + ", " + std::string(key)) : *otherwise;
}

Text Table::text(std::string_view key) { return text_of(context_, need(key), what_ + ", " + std::string(key)); }

std::optional<Text> Table::text_if(std::string_view key) {
  if (!has(key)) return {};
  return text(key);
}

std::vector<Text> Table::texts(std::string_view key) {
  const toml::node& node = need(key);
  const std::string what = what_ + ", " + std::string(key);
  if (!node.is_array()) return {text_of(context_, node, what)};
  std::vector<Text> out;
  for (const toml::node& each : *node.as_array()) out.push_back(text_of(context_, each, what));
  if (out.empty()) refuse(key, std::string(key) + " is empty");
  return out;
}

std::size_t Table::word(std::string_view key, const std::vector<std::string>& words, std::size_t otherwise) {
  if (!has(key)) return otherwise;
  const Text given = text(key);
  const auto found = std::find(words.begin(), words.end(), given.value);
  if (found != words.end()) return static_cast<std::size_t>(found - words.begin());
  if (const std::string_view now = renamed_value(key, given.value); !now.empty())
    scene::fail(given.place, what_ + ": " + std::string(key) + " \"" + given.value + "\"" + was_renamed(now));
  std::string known;
  for (const std::string& each : words) known += (known.empty() ? "" : ", ") + each;
  const std::string hint = suggestion(given.value, words);
  scene::fail(given.place, what_ + ": there is no " + std::string(key) + " \"" + given.value + "\"" +
                               (hint.empty() ? "; known: " + known : hint));
}

const toml::table* Table::table(std::string_view key) {
  const toml::node* node = find(key);
  if (!node) return nullptr;
  if (!node->is_table()) refuse(key, std::string(key) + " is a table, not " + kind_of(*node));
  return node->as_table();
}

std::vector<const toml::table*> Table::tables(std::string_view key) {
  const toml::node* node = find(key);
  std::vector<const toml::table*> out;
  if (!node) return out;
  const auto* array = node->as_array();
  if (!array) refuse(key, "write [[" + std::string(key) + "]] with two brackets, because a scene can have several");
  for (const toml::node& each : *array) {
    if (!each.is_table()) refuse(key, "each of \"" + std::string(key) + "\" is a table");
    out.push_back(each.as_table());
  }
  return out;
}

void Table::constants(std::string_view key, Constants& into,
                      const std::map<std::string, double, std::less<>>& instead) {
  const toml::table* params = table(key);
  if (!params) return;
  const auto ordered = in_order(*params);
  for (const auto& [name, node] : ordered) {
    const std::string id(name->str());
    const std::string what = what_ + ", parameter \"" + id + "\"";
    const Place at{context_.source, name->source().begin.line, name->source().begin.column};
    if (id == "t" || id == "pi") scene::fail(at, what + ": \"" + id + "\" has a meaning already");
    if (quoted(id) != id) scene::fail(at, what + ": a name is of letters, digits and _");
    if (const auto given = instead.find(id); given != instead.end() && !node->is_array()) {
      into[id] = given->second;
    } else if (node->is_string()) {
      const Text text = text_of(context_, *node, what);
      try {
        into[id] = constant(text.value, context_.names.constants);
      } catch (const Fault& fault) {
        for (const auto& [other, unread] : ordered)
          if (std::string_view(fault.what()).starts_with("unknown name '" + std::string(other->str()) + "'"))
            text.fail(Fault(fault.at, "\"" + std::string(other->str()) +
                                          "\" is not known yet: parameters are read in order, from top to bottom"),
                      what);
        text.fail(fault, what);
      }
    } else if (node->is_array()) {
      into[id] = vector_of(context_, *node, what);
    } else {
      into[id] = number_of(context_, *node, what);
    }
  }
}

std::vector<Text> Table::definitions(std::string_view key, Names& into) {
  std::vector<Text> texts;
  const toml::table* all = table(key);
  if (!all) return texts;
  constexpr std::size_t most = 1000;
  if (all->size() > most)
    refuse(key, "there are more than " + std::to_string(most) + " definitions, which is the limit");
  for (const auto& [name, node] : in_order(*all)) {
    const std::string id(name->str());
    const std::string what = what_ + ", definition \"" + id + "\"";
    const Place at{context_.source, name->source().begin.line, name->source().begin.column};
    if (id == "t" || id == "pi") scene::fail(at, what + ": \"" + id + "\" has a meaning already");
    if (quoted(id) != id) scene::fail(at, what + ": a name is of letters, digits and _");
    if (is_function(id)) scene::fail(at, "\"" + id + "\" is both a function and a definition; rename the definition");
    if (into.constants.find(id)) scene::fail(at, "\"" + id + "\" is both a parameter and a definition; rename one");
    for (const Definition* d = into.definitions.get(); d; d = d->before.get())
      if (d->name == id) scene::fail(at, "there are two definitions \"" + id + "\"; rename one");
    texts.push_back(text_of(context_, *node, what));
    into.definitions =
        std::make_shared<const Definition>(Definition{id, texts.back().value, &into.constants, into.definitions});
  }
  return texts;
}

void Table::accept_only(std::initializer_list<const char*> keys) {
  known_.insert(keys.begin(), keys.end());
  done();
}

void Table::done() const {
  for (const auto& [key, node] : table_) {
    if (!known_.contains(key.str())) unknown(key);
  }
}

Place Table::place() const { return place_of(context_, table_); }

void Table::refuse_misspelt_key() const {
  for (const auto& [key, node] : table_)
    if (!known_.contains(key.str()) &&
        (!nearest(key.str(), {known_.begin(), known_.end()}).empty() || !renamed_key(what_, key.str()).empty()))
      unknown(key);
}

void Table::refuse(const std::string& message) const {
  refuse_misspelt_key();
  scene::fail(place(), what_ + ": " + message);
}

void Table::unknown(const toml::key& key) const {
  const std::string name(key.str());
  const Place place{context_.source, key.source().begin.line, key.source().begin.column};
  if (const std::string_view now = renamed_key(what_, name); !now.empty())
    scene::fail(place, what_ + ": key \"" + name + "\"" + was_renamed(now));
  scene::fail(place,
              what_ + ": unknown key \"" + name + "\"" + suggestion_or_all(name, {known_.begin(), known_.end()}));
}

Place Table::place(std::string_view key) const {
  const toml::node* node = table_.get(key);
  return node ? place_of(context_, *node) : place();
}

void Table::refuse(std::string_view key, const std::string& message) const {
  scene::fail(place(key), what_ + ": " + message);
}

}  // namespace linchpin::scene
