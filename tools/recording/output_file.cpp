#include "output_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <stdexcept>

namespace linchpin::recording {

namespace fs = std::filesystem;

OutputFile::OutputFile(const std::string& option, const std::string& path, const std::vector<std::string>& input,
                       const char* kind)
    : option_(option), path_(path) {
  if (path.empty()) return;
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  if (fs::is_directory(status)) refuse("it is a directory");
  if (fs::exists(status) && !fs::is_regular_file(status)) refuse("it is not a regular file");
  for (const std::string& each : input)
    if (fs::exists(status) && fs::equivalent(path, each, ignored))
      refuse(&each == &input.front() ? std::string("it is the ") + kind + " itself"
                                     : "it is one of the files that are read");
  if (fs::exists(status) && ::access(path.c_str(), W_OK) != 0) refuse(std::strerror(errno));
  temporary_ = path + ".part-" + std::to_string(::getpid());
  std::FILE* file = std::fopen(temporary_.c_str(), "wx");
  if (!file) {
    const int why = errno;
    temporary_.clear();
    refuse(std::strerror(why));
  }
  std::fclose(file);
}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) std::remove(temporary_.c_str());
}

void OutputFile::keep() {
  if (temporary_.empty()) return;
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) refuse(std::strerror(errno));
  temporary_.clear();
}

void OutputFile::write(const std::string& text) {
  if (temporary_.empty()) return;
  std::FILE* file = std::fopen(temporary_.c_str(), "w");
  if (!file) refuse(std::strerror(errno));
  const bool whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !whole) refuse(std::strerror(errno));
  keep();
}

void OutputFile::refuse(const std::string& why) const {
  throw std::invalid_argument(option_ + ": \"" + path_ + "\" cannot be written: " + why);
}

void demand_other_places(const std::vector<std::pair<std::string, std::string>>& outputs) {
  const auto place = [](const std::string& path) {
    std::error_code unknown;
    const fs::path out = fs::weakly_canonical(fs::absolute(path), unknown);
    return unknown ? fs::path(path) : out;
  };
  for (std::size_t i = 0; i < outputs.size(); ++i)
    for (std::size_t k = 0; k < i; ++k)
      if (!outputs[i].second.empty() && !outputs[k].second.empty() &&
          place(outputs[i].second) == place(outputs[k].second))
        throw std::invalid_argument(outputs[k].first + " and " + outputs[i].first + " are both \"" + outputs[i].second +
                                    "\". Give each its own file");
}

}  // namespace linchpin::recording
