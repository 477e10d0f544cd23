#include "case_table.h"

#include "recording/output_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace linchpin::cli {

CaseTable::CaseTable(std::string path, std::string header, std::uint64_t size,
                     std::function<std::string(std::uint64_t)> begins, std::string ends)
    : path_(std::move(path)), header_(std::move(header)), ends_(std::move(ends)), begins_(std::move(begins)) {
  header_ += '\n';
  ends_ += '\n';
  rows_.resize(size);
}

CaseTable::~CaseTable() {
  if (part_ >= 0) ::close(part_);
}

// Rows are compared as text: what differs in a digit is another case.
void CaseTable::read(const std::string& file, std::string_view text) {
  const auto refuse = [&](std::size_t line, const char* why) {
    throw std::invalid_argument("\"" + file + "\", line " + std::to_string(line) + ": " + why +
                                ", so the file belongs to another sweep");
  };
  if (text.substr(0, header_.size()) != header_) refuse(1, "the file has other columns");
  text.remove_prefix(header_.size());
  for (std::size_t line = 2; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return;  // torn off
    const std::string_view row = text.substr(0, end + 1);
    text.remove_prefix(end + 1);
    std::uint64_t number = 0;
    const auto [after, error] = std::from_chars(row.data(), row.data() + row.size(), number);
    if (error != std::errc() || after == row.data()) refuse(line, "the row does not begin with a case number");
    if (number >= rows_.size()) refuse(line, "this sweep has no such case");
    if (!row.starts_with(begins_(number))) refuse(line, "the row has other parameters than this case");
    if (!row.ends_with(ends_))
      refuse(line, "the row comes from another scene, other options or another version of linchpin");
    rows_[number] = row;
  }
}

void CaseTable::take(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream all;
  if (!in.is_open() || !(all << in.rdbuf())) throw std::invalid_argument("\"" + file + "\" cannot be read");
  read(file, all.str());
}

void CaseTable::open(bool resume) {
  const std::string part = path_ + ".part";
  const auto refuse = [&](const std::string& why) { throw std::invalid_argument("\"" + part + "\" " + why); };
  part_ = ::open(part.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (part_ < 0) refuse(std::string("cannot be written: ") + std::strerror(errno));
  if (::flock(part_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) refuse("is being written by another sweep");
  std::string text;
  char buffer[65536];
  for (ssize_t n; (n = ::read(part_, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  // A last line without its end is half of a row; a header without rows is worth nothing.
  std::size_t whole = text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1;
  if (whole == header_.size()) whole = 0;
  if (whole == 0 && !header_.starts_with(text))
    refuse("exists and is not the table of a sweep. Delete it, or choose another --out");
  if (whole > 0 && !resume)
    refuse("has the rows of an unfinished sweep. Continue it with --resume, or delete the file");
  if (whole < text.size() && ::ftruncate(part_, static_cast<off_t>(whole)) != 0) refuse(std::strerror(errno));
  if (whole > 0) {
    read(part, std::string_view(text).substr(0, whole));
    return;
  }
  if (::write(part_, header_.data(), header_.size()) != static_cast<ssize_t>(header_.size()))
    refuse(std::string("cannot be written: ") + std::strerror(errno));
}

void CaseTable::append(std::uint64_t number, const std::string& rest) {
  std::string& row = rows_[number];
  row = begins_(number) + rest + ends_;
  const ssize_t n = ::write(part_, row.data(), row.size());
  if (n != static_cast<ssize_t>(row.size()))
    throw std::runtime_error("\"" + path_ + ".part\" was not written in full: " +
                             std::strerror(n < 0 ? errno : ENOSPC) + ". Make room and continue with --resume");
}

void CaseTable::finish() {
  std::string text = header_;
  for (const std::string& row : rows_) text += row;
  recording::OutputFile("--out", path_, {}).write(text);
  if (::unlink((path_ + ".part").c_str()) != 0)
    throw std::invalid_argument("\"" + path_ + ".part\" cannot be removed: " + std::strerror(errno));
}

}  // namespace linchpin::cli
