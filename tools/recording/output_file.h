// A file to be: written beside its place under another name and renamed at the end, so that nobody reads half of it and
// a failed run does not cost the last good one.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace linchpin::recording {

class OutputFile {
 public:
  /// @param option  that named it, for messages
  /// @param path  empty for no file. @throws std::invalid_argument when it cannot be written there, also from keep().
  /// @param input  which it must not be. @param kind  of input, for messages
  OutputFile(const std::string& option, const std::string& path, const std::vector<std::string>& input,
             const char* kind = "scene");
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Where to write; empty for no file.
  const std::string& temporary() const { return temporary_; }
  /// What was written takes its place.
  void keep();
  /// Writes this text and keeps it; nothing where there is no file. @throws std::invalid_argument
  void write(const std::string& text);

 private:
  [[noreturn]] void refuse(const std::string& why) const;
  std::string option_, path_, temporary_;
};

/// No two outputs in one place: `option` and path of each, an empty path for none. @throws std::invalid_argument
void demand_other_places(const std::vector<std::pair<std::string, std::string>>& outputs);

}  // namespace linchpin::recording
