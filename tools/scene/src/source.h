// Where things stand in a scene file, and reading a TOML table key by key so that what nobody asked for is an error.
#pragma once

#include "expression.h"

#include <linchpin/scene.h>

// See toml.cpp.
#ifndef TOML_ASSERT
#define TOML_ASSERT(expr) static_assert(true)
#endif
#include <toml++/toml.h>

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace linchpin::scene {

struct Source {
  Source(std::string path, std::string text);
  std::string_view line(std::size_t number) const;  ///< from 1
  std::string path, text;

 private:
  std::vector<std::size_t> starts_;
};

struct Place {
  std::shared_ptr<const Source> source;
  std::size_t line = 0, column = 0;  ///< from 1, in code points as TOML counts
};

/// @throws SceneError with the source line and a caret.
[[noreturn]] void fail(const Place& place, const std::string& message);
/// The same as a text that begins with a warning's place.
std::string warning(const Place& place, const std::string& message);

/// What all tables of one file share while they are read.
struct Context {
  std::shared_ptr<const Source> source;
  Names names;                            ///< constants; bodies once they are known
  std::map<std::string, double> indices;  ///< i, j of the generators around: {i} in texts, i in expressions

  /// For a table or a round inside, whose constants, definitions and indices are its own.
  Context inside() const {
    Context out{source, {}, indices};
    out.names.constants = names.constants.inside();
    out.names.definitions = names.definitions;
    return out;
  }
};

Place place_of(const Context& context, const toml::node& node);

/// A text with the file it came from, {i} replaced.
struct Text {
  std::string value;
  Place place;            ///< of its opening quote
  bool verbatim = false;  ///< stands in its source line as it is: columns can be counted on

  /// @throws SceneError at the fault's place.
  [[noreturn]] void fail(const Fault& fault, const std::string& who) const;
};
Text text_of(const Context& context, const toml::node& node, const std::string& what);

class Table {
 public:
  /// @param what  how messages call it: body "hook"
  Table(Context& context, const toml::table& table, std::string what);

  const toml::node* find(std::string_view key);
  bool has(std::string_view key) { return find(key) != nullptr; }
  /// @throws SceneError when it is missing, also below.
  const toml::node& need(std::string_view key);
  double number(std::string_view key, std::optional<double> otherwise = {});
  double positive(std::string_view key, std::optional<double> otherwise = {});
  double not_negative(std::string_view key, std::optional<double> otherwise = {});
  int whole(std::string_view key, int least, int most, std::optional<int> otherwise = {});
  bool flag(std::string_view key, bool otherwise);
  Vector3d vector(std::string_view key, std::optional<Vector3d> otherwise = {});
  Text text(std::string_view key);
  std::optional<Text> text_if(std::string_view key);
  /// One text or an array of them.
  std::vector<Text> texts(std::string_view key);
  /// One of the words. @return its index.
  std::size_t word(std::string_view key, const std::vector<std::string>& words, std::size_t otherwise);
  const toml::table* table(std::string_view key);
  /// [[key]], or nothing.
  std::vector<const toml::table*> tables(std::string_view key);
  /// Numbers by key, in the order of the file: params. @param instead  what is not as in the file
  void constants(std::string_view key, Constants& into, const std::map<std::string, double, std::less<>>& instead = {});

  /// Expressions by name, in the order of the file, behind the definitions of `into`.
  /// @return their texts in the same order
  std::vector<Text> definitions(std::string_view key, Names& into);

  /// Refuses every key that is not one of these. Call it before the first key is read, where a misspelt key would lead
  /// to another error first.
  void accept_only(std::initializer_list<const char*> keys);
  /// @throws SceneError for a key that nobody asked for.
  void done() const;
  /// Refuses a key that is a slip of a known one. It is the likelier reason for whatever is missing.
  void refuse_misspelt_key() const;
  [[noreturn]] void refuse(const std::string& message) const;
  [[noreturn]] void refuse(std::string_view key, const std::string& message) const;
  const toml::table& node() const { return table_; }
  const std::string& what() const { return what_; }
  Place place() const;
  Place place(std::string_view key) const;  ///< of its value, or of the table
  void rename(std::string what) { what_ = std::move(what); }

 private:
  [[noreturn]] void unknown(const toml::key& key) const;
  Context& context_;
  const toml::table& table_;
  std::string what_;
  std::set<std::string, std::less<>> known_;
};

double number_of(const Context& context, const toml::node& node, const std::string& what);
Vector3d vector_of(const Context& context, const toml::node& node, const std::string& what);

}  // namespace linchpin::scene
