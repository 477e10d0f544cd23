// The table of a sweep on disk. Rows are appended to FILE.part as cases end, in whatever order, each by one write, so
// that whatever ends the sweep costs no row; when all are there they become FILE, in the order of the cases.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace linchpin::cli {

class CaseTable {
 public:
  /// @param header  the first line. @param begins  how the row of a case begins: its number and parameters
  /// @param ends  how every row ends: what tells this sweep from another over the same parameters
  CaseTable(std::string path, std::string header, std::uint64_t size, std::function<std::string(std::uint64_t)> begins,
            std::string ends);
  ~CaseTable();
  CaseTable(const CaseTable&) = delete;
  CaseTable& operator=(const CaseTable&) = delete;

  /// The rows of a file that is finished. @throws std::invalid_argument when it is of another sweep, or cannot be read.
  void take(const std::string& file);
  /// Opens FILE.part, and goes on with the rows in it or refuses to. @throws std::invalid_argument
  void open(bool resume);
  bool has(std::uint64_t number) const { return !rows_[number].empty(); }
  const std::string& row(std::uint64_t number) const { return rows_[number]; }
  /// @param rest  of the row, after what it begins with. @throws std::runtime_error when it cannot be written.
  void append(std::uint64_t number, const std::string& rest);
  /// FILE.part becomes FILE. @throws std::invalid_argument
  void finish();

 private:
  void read(const std::string& file, std::string_view text);
  std::string path_, header_, ends_;
  std::function<std::string(std::uint64_t)> begins_;
  std::vector<std::string> rows_;  // by case, with line end; empty: not there
  int part_ = -1;
};

}  // namespace linchpin::cli
