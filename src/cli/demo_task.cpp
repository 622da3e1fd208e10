#include "cli/demo_task.h"

#include <array>

namespace roost::cli {

std::string_view demo_system_text() {
  return "You are one of several agents that work on the same task at the same time. Each agent has one small part of "
         "it. Answer "
         "your own part only, in two or three plain sentences, and keep to the facts below.\n"
         "\n"
         "The task: prepare the release of Harbor 2.4, a small service that keeps the timetable of a ferry line.\n"
         "\n"
         "What is known:\n"
         "- Harbor runs on two machines in the port office, north and south. North answers requests, south is a copy "
         "that takes "
         "over when north is silent for ten seconds.\n"
         "- Version 2.3 has been running for eleven weeks. It was restarted twice, both times because the disk of "
         "north was full of "
         "old log files.\n"
         "- Version 2.4 deletes log files after seven days, shows delays on the passengers' page within one minute "
         "instead of five, "
         "and asks for a signature before a departure is cancelled.\n"
         "- The harbour master wants the change on a Tuesday, because fewer ferries leave on that day. The last ferry "
         "leaves at "
         "21:40 and the first one at 05:15.\n"
         "- The new page was tried by six people of the crew. Five liked it. One found the letters too small on the "
         "old screens of "
         "the waiting hall.\n"
         "- The move of the database takes about four minutes for the timetable of one year. There are three years of "
         "it. During the "
         "move nobody can change a departure, but everyone can read.\n"
         "- If something goes wrong, version 2.3 can be started again from the copy on south. This was tried once, in "
         "spring, and "
         "took nine minutes.\n"
         "- Anna wrote the part that deletes log files, Bo wrote the new page, and Chen wrote the signature. Bo is "
         "away on Tuesday.\n"
         "- The harbour master has to be told one day before, the ferry captains one hour before, and the waiting hall "
         "shows a "
         "notice while the change is made.\n";
}

DemoRole demo_role(int index) {
  static constexpr std::array kOthers{
      DemoRole{"planner",
               "Your part: at what time should the change be made, and how long will the move of the database take?"},
      DemoRole{"reviewer", "Your part: what is the greatest risk of this release, and what is done if it goes wrong?"},
      DemoRole{"writer", "Your part: write the notice for the screens of the waiting hall."},
      DemoRole{"contact", "Your part: who must be told about the change, and when?"},
      DemoRole{"historian", "Your part: how has version 2.3 behaved so far?"},
  };
  if (index == 0) {
    return {"operator", "Your part: look at your workspace with the bash tool, then say what you have seen.", true};
  }
  return kOthers[static_cast<std::size_t>(index - 1) % kOthers.size()];
}

}  // namespace roost::cli
