// The page for new users: what to do, and scenarios to begin with. It lies over the empty window and goes when there is something to show.
#pragma once

#include <QWidget>

#include <string_view>

namespace orrery {

class ActionRegistry;

class WelcomePage : public QWidget {
    Q_OBJECT
  public:
    WelcomePage(const ActionRegistry& actions, QWidget* parent);

  Q_SIGNALS:
    void exampleChosen(const QString& name);
    void dismissed(); // Esc: to the empty window

  protected:
    void paintEvent(QPaintEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;
};

// The example scenarios compiled in; empty text: there is none of this name.
QStringList example_names();
std::string_view example_text(const QString& name);

} // namespace orrery
