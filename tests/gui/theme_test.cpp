// Does everything recolour when the theme is switched, is the choice kept, is the desktop's wish followed when it changes?
#include "gui/app/palettes.hpp"
#include "tests/gui/windows.hpp"

#include <QAction>
#include <QImage>
#include <QPixmap>
#include <QProcess>
#include <QThreadPool>
#include <QtTest/QTest>

#ifdef ORRERY_DBUS
#include "tests/gui/fake_portal.hpp"
#endif

using namespace orrery;
using namespace orrery::windows;

namespace {

Theme shown() { return QApplication::palette().color(QPalette::Base).lightness() < 128 ? Theme::dark : Theme::light; }

// Two runs and a sweep's result would be more: what is cached is cached with one. All views at one size.
std::map<QString, QImage> pictures(MainWindow& window) {
    std::map<QString, QImage> out;
    window.showView("problems"); // hidden while there are none: it would take room when its turn comes
    for (const QString& name : MainWindow::viewNames()) {
        window.view(name)->setFixedSize(640, 320); // docks share their heights out event by event, not always alike
        window.showView(name);
        if (QWidget* focus = QApplication::focusWidget()) focus->clearFocus(); // its frame and a blinking cursor are no colours of the view
        QTest::qWait(30);
        QThreadPool::globalInstance()->waitForDone();
        QTest::qWait(30);
        out[name] = window.view(name)->grab().toImage();
    }
    return out;
}

double lightness(const QImage& image) {
    double sum = 0;
    for (int y = 0; y < image.height(); ++y)
        for (int x = 0; x < image.width(); ++x) sum += qGray(image.pixel(x, y));
    return sum / image.width() / image.height();
}

void open_two(MainWindow& window, const QTemporaryDir& folder) {
    window.show();
    window.open({written(folder, "a.json", small),
                 written(folder, "b.json", QByteArray(small).replace("\"tensor_parallel\": 2", "\"tensor_parallel\": 4"))});
    QTRY_VERIFY_WITH_TIMEOUT(window.idle(), patience);
    window.state().setBaseline(window.store().runs()[0].id);
}

} // namespace

class ThemeTest : public QObject {
    Q_OBJECT
  private Q_SLOTS:
    // A window that was dark from the start is what one that was switched must look like: nothing keeps an old colour.
    void everyViewRecolours() {
        QTemporaryDir folder;
        Options options = fresh();
        options.theme = "dark";
        std::map<QString, QImage> expected;
        {
            MainWindow window(options);
            open_two(window, folder);
            expected = pictures(window);
        }
        options.theme = "light";
        MainWindow window(options);
        open_two(window, folder);
        const auto light = pictures(window);
        QCOMPARE(shown(), Theme::light);
        window.registry().find("view.dark")->trigger();
        QCOMPARE(shown(), Theme::dark);
        const auto dark = pictures(window);
        for (const QString& name : MainWindow::viewNames()) {
            QVERIFY2(lightness(light.at(name)) > 150, qPrintable(name));
            QVERIFY2(lightness(dark.at(name)) < 110, qPrintable(name));
            if (dark.at(name) != expected.at(name)) {
                dark.at(name).save(name + "_switched.png");
                expected.at(name).save(name + "_dark.png");
            }
            QVERIFY2(dark.at(name) == expected.at(name), qPrintable(name));
        }
        window.registry().find("view.other_theme")->trigger();
        QCOMPARE(shown(), Theme::light);
        QVERIFY(window.registry().find("view.light")->isChecked());
    }

    void theChoiceIsKept() {
        QTemporaryDir folder;
        const Options options = remembering(folder);
        {
            MainWindow window(options);
            QVERIFY(window.registry().find("view.system")->isChecked()); // what a new user has
            window.registry().find("view.dark")->trigger();
        }
        apply_theme(Theme::light);
        MainWindow window(options);
        QCOMPARE(shown(), Theme::dark);
        QVERIFY(window.registry().find("view.dark")->isChecked());
        window.registry().find("view.system")->trigger();
    }

#ifdef ORRERY_DBUS
    // A portal of our own on a bus of our own.
    void theDesktopIsFollowed() {
        FakePortal portal;
        if (!portal.start()) QSKIP("no dbus-daemon here");
        apply_theme(Theme::light);
        ThemeChoice choice(false, "system");
        QTRY_COMPARE_WITH_TIMEOUT(choice.shown(), Theme::dark, 5000); // as the portal says
        QCOMPARE(shown(), Theme::dark);
        portal.say(2);
        QTRY_COMPARE_WITH_TIMEOUT(shown(), Theme::light, 5000);
        portal.say(1);
        QTRY_COMPARE_WITH_TIMEOUT(shown(), Theme::dark, 5000);
        choice.choose("light"); // the user's word counts more
        QCOMPARE(shown(), Theme::light);
        portal.say(2);
        portal.say(1);
        QTest::qWait(100);
        QCOMPARE(shown(), Theme::light);
    }
#endif
};

int main(int argc, char** argv) {
    // Before the application connects to a bus: the daemon's address goes into the environment.
    QProcess daemon;
    daemon.start("dbus-daemon", {"--session", "--nofork", "--nopidfile", "--print-address=1"});
    if (daemon.waitForStarted() && daemon.waitForReadyRead(5000))
        qputenv("DBUS_SESSION_BUS_ADDRESS", daemon.readAllStandardOutput().trimmed());
    else
        qunsetenv("DBUS_SESSION_BUS_ADDRESS");
    QApplication application(argc, argv);
    ThemeTest test;
    const int code = QTest::qExec(&test, argc, argv);
    daemon.kill();
    daemon.waitForFinished();
    return code;
}
#include "theme_test.moc"
