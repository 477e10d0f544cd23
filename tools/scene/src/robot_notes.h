// The notes of a robot's file while it is read. Notes of the same kind about several links or joints become one.
#pragma once

#include <linchpin/scene.h>

#include <string>
#include <vector>

namespace linchpin::scene {

class RobotNotes {
 public:
  /// The words of a kind of note. About one part it says: link "hip" `one`. About several it says: 3 links `many`: hip,
  /// knee, foot.
  struct Kind {
    const char *noun, *one, *many;
    const char* more = "";  ///< a sentence at the end
  };

  /// A note that stands alone.
  void add(std::string text);
  /// A note about one link, joint or element. A second one of the same kind and name is dropped.
  /// @param value  what is shown in brackets behind the name, or empty
  void add(const Kind& kind, const std::string& name, const std::string& value = {});
  /// The notes in the order in which the first of each kind came.
  std::vector<Note> all() const;

 private:
  struct Group {
    Kind kind;
    std::string text;  // of one that stands alone
    std::vector<std::string> names, values;
  };
  std::vector<Group> groups_;
};

}  // namespace linchpin::scene
